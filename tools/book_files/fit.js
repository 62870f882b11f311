// What is wider than the page gets smaller, or breaks its words; what is still too wide is told.
const body = document.body;
const room = body.getBoundingClientRect().width;
const reach = node => node.getBoundingClientRect().right - body.getBoundingClientRect().left;

function shrink(node, least) {
  // The width that the node wants against the one that it has.
  const has = room - (node.getBoundingClientRect().left - body.getBoundingClientRect().left);
  const wants = Math.max(node.scrollWidth, node.getBoundingClientRect().width);
  node.style.zoom = Math.max(least, 0.995 * has / wants);
}

for (const table of document.querySelectorAll("table")) {
  if (reach(table) <= room + 0.5) continue;
  shrink(table, 0.75);
  if (reach(table) <= room + 0.5) continue;
  table.classList.add("breaks");
}
for (const formula of document.querySelectorAll("div.formula mjx-container, p mjx-container"))
  if (reach(formula) > room + 0.5) shrink(formula, 0.5);

const wide = [];
for (const node of document.querySelectorAll("section:not(.cover) *"))
  if (reach(node) > room + 1) {
    const page = node.closest("section").querySelector("h1, h2");
    wide.push(`${page ? page.textContent : "?"}: ${node.tagName} ${node.textContent.trim().slice(0, 60)}`);
  }
return wide;
