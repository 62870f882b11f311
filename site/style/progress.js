/* What has been read, kept in this browser alone: a button at the end of a chapter marks it, and the table of contents shows
   a tick. Without this script, or where storage is off, there is neither. */
"use strict";
(() => {
  const KEY = "d2lbert-read";
  const chapter = (address) => (new URL(address, location).pathname.match(/chapters\/[\w-]+\/[\w-]+(?=\.html$)/) ?? [null])[0];

  function read() {
    try {
      const kept = JSON.parse(localStorage.getItem(KEY) ?? "[]");
      return new Set(Array.isArray(kept) ? kept.filter((name) => typeof name === "string") : []);
    } catch {
      return new Set(); // something else is kept under this name
    }
  }

  function tick(link, done) {
    link.querySelector(".read-tick")?.remove();
    if (!done) return;
    const mark = document.createElement("span");
    mark.className = "read-tick";
    mark.textContent = " ✓";
    const said = document.createElement("span");
    said.className = "visually-hidden";
    said.textContent = " (read)";
    mark.append(said);
    link.append(mark);
  }

  function show(links, button, here, told) {
    const done = read();
    for (const [link, name] of links) tick(link, done.has(name));
    if (!button) return;
    button.setAttribute("aria-pressed", done.has(here));
    const known = new Set(links.map(([, name]) => name));
    told.textContent = `${[...done].filter((name) => known.has(name)).length} of ${known.size} pages read.`;
  }

  function start() {
    const here = chapter(location.href);
    const links = [...document.querySelectorAll("nav.bd-links a[href]")]
      .map((link) => [link, link.getAttribute("href") === "#" ? here : chapter(link.href)])
      .filter(([, name]) => name);
    const article = document.querySelector("article.bd-article");
    let button = null;
    const told = document.createElement("span");
    if (here && article) {
      button = document.createElement("button");
      button.type = "button";
      button.textContent = "I have read this page";
      button.addEventListener("click", () => {
        const done = read();
        if (!done.delete(here)) done.add(here);
        localStorage.setItem(KEY, JSON.stringify([...done]));
        show(links, button, here, told);
      });
      told.setAttribute("role", "status");
      const row = document.createElement("p");
      row.className = "read-button";
      row.append(button, " ", told);
      article.append(row);
    }
    show(links, button, here, told);
  }

  try {
    localStorage.getItem(KEY); // throws where storage is off
  } catch {
    return;
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
