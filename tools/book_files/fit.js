// What is wider than the page gets smaller, or breaks its words; what is still too wide is told.
// All is measured before anything changes, since each measure after a change lays out the whole book again.
const edge = document.body.getBoundingClientRect();
const reaches = node => node.getBoundingClientRect().right > edge.right + 0.5;
const tooWide = selector => [...document.querySelectorAll(selector)].filter(reaches);

function shrink(nodes, least) {
  const shares = nodes.map(node => {
    const box = node.getBoundingClientRect();
    return (edge.right - box.left) / Math.max(node.scrollWidth, box.width);
  });
  nodes.forEach((node, place) => { node.style.zoom = Math.max(least, 0.995 * shares[place]); });
}

shrink(tooWide("table"), 0.75);
for (const table of tooWide("table")) table.classList.add("breaks");
shrink(tooWide("mjx-container"), 0.5);
return tooWide("section:not(.cover) *").map(node => {
  const title = node.closest("section").querySelector("h1, h2");
  return `${title ? title.textContent : "?"}: ${node.tagName} ${node.textContent.trim().slice(0, 60)}`;
});
