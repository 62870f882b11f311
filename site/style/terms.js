/* The meaning of a term of the glossary, while the pointer or the focus is on it; Escape hides it. A screen reader reads it
   as the description of the link. Without this script the term is a link to the section that explains it. */
"use strict";
(() => {
  const box = document.createElement("span");
  box.className = "book-meaning";
  box.id = "book-meaning";
  box.setAttribute("role", "tooltip");
  box.hidden = true;
  let shown = null;
  let leaving = 0;

  function hide() {
    clearTimeout(leaving);
    shown?.removeAttribute("aria-describedby");
    shown = null;
    box.hidden = true;
  }

  function show(term) {
    if (shown === term) return clearTimeout(leaving);
    hide();
    shown = term;
    box.textContent = term.dataset.meaning;
    term.setAttribute("aria-describedby", box.id);
    term.after(box); // beside the term, so that the pointer may go there
    box.hidden = false;
    box.style.left = box.style.top = "0";
    const origin = box.getBoundingClientRect();
    const [first] = term.getClientRects();
    const room = document.documentElement.clientWidth - origin.width - 8;
    box.style.left = `${Math.max(8, Math.min(first.left, room)) - origin.left}px`;
    box.style.top = `${first.bottom - origin.top}px`;
  }

  const term = ({ target }) => (target instanceof Element ? target.closest("a.book-term") : null);
  document.addEventListener("mouseover", (event) => {
    const found = term(event);
    if (found) show(found);
    else if (event.target === box) clearTimeout(leaving);
  });
  document.addEventListener("mouseout", (event) => {
    if (term(event) || event.target === box) leaving = setTimeout(hide, 200);
  });
  document.addEventListener("focusin", (event) => {
    const found = term(event);
    if (found) show(found);
    else hide();
  });
  document.addEventListener("focusout", (event) => {
    if (term(event)) hide();
  });
  document.addEventListener("keydown", ({ key }) => {
    if (key === "Escape") hide();
  });
})();
