/* What is wider than the page scrolls inside itself: such a table or formula can be reached by keyboard, has a name for
   screen readers, and shows by a shadow at its edge that it goes on. Without this script it still scrolls. */
"use strict";
(() => {
  const names = [
    ["table", "Wide table, scrolls sideways"],
    ['mjx-container[display="true"]', "Wide formula, scrolls sideways"],
  ];

  function wrap(table) {
    const parent = table.parentElement;
    if (parent.classList.contains("scroller")) return parent;
    if (parent.classList.contains("pst-scrollable-table-container")) {
      parent.classList.add("scroller");
      return parent;
    }
    const scroller = document.createElement("div");
    scroller.className = "scroller";
    table.before(scroller);
    scroller.append(table);
    return scroller;
  }

  function update(scroller, name) {
    const wide = scroller.scrollWidth > scroller.clientWidth + 1;
    scroller.classList.toggle("goes-on", wide && scroller.scrollLeft + scroller.clientWidth < scroller.scrollWidth - 1);
    scroller.classList.toggle("came-from", wide && scroller.scrollLeft > 1);
    if (wide) {
      scroller.tabIndex = 0;
      scroller.setAttribute("role", "region");
      scroller.setAttribute("aria-label", name);
    } else if (scroller.getAttribute("aria-label") === name) {
      for (const attribute of ["tabindex", "role", "aria-label"]) scroller.removeAttribute(attribute);
    }
  }

  function start() {
    const watcher = new ResizeObserver((entries) => entries.forEach(({ target }) => target.dispatchEvent(new Event("scroll"))));
    for (const [selector, name] of names) {
      for (const node of document.querySelectorAll(`.bd-article ${selector}`)) {
        const scroller = node.tagName === "TABLE" ? wrap(node) : node;
        scroller.addEventListener("scroll", () => update(scroller, name), { passive: true });
        watcher.observe(scroller);
        update(scroller, name);
      }
    }
  }

  // Formulas are drawn after the page was read.
  const drawn = () => (window.bookFormulas ?? Promise.resolve()).then(start);
  if (document.readyState === "complete") drawn();
  else window.addEventListener("load", drawn);
})();
