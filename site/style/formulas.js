/* Draws the formulas once the text can be read: MathJax, 200 KB packed, comes after the first paint and draws a few formulas
   at a time, so that the page answers in between. The promise `bookFormulas` is kept when all are drawn. */
"use strict";
(() => {
  const PATIENCE = 3000; // ms; a page in a hidden tab is not painted
  const SLICE = 8; // ms; a phone is some four times slower
  const address = new URL("../mathjax/startup.js", document.currentScript.src);

  const painted = new Promise((go) => {
    new PerformanceObserver((seen) => {
      if (seen.getEntriesByName("first-contentful-paint").length) go();
    }).observe({ type: "paint", buffered: true });
    setTimeout(go, PATIENCE);
  });

  function load() {
    return new Promise((go, fail) => {
      const script = Object.assign(document.createElement("script"), { src: address, onload: go, onerror: fail });
      document.head.append(script);
    });
  }

  async function draw() {
    await painted;
    await load();
    await MathJax.startup.promise;
    let began = performance.now();
    for (const formula of document.querySelectorAll(".math")) {
      if (performance.now() - began > SLICE) {
        await new Promise((go) => setTimeout(go));
        began = performance.now();
      }
      await MathJax.typesetPromise([formula]);
    }
    await MathJax.typesetPromise(); // what stands between the marks of TeX elsewhere, such as in a table
  }

  window.bookFormulas = draw();
})();
