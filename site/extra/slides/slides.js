// Start a deck: formulas first, since reveal.js measures what is drawn; then the slides, their keys and the notes.

(() => {
  const script = document.currentScript;
  const theme = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const chosen = () => {
    try { return localStorage.getItem("d2lbert-slides-theme"); } catch { return null; } // a page without storage
  };
  const paint = () => { root.dataset.theme = chosen() ?? (theme.matches ? "dark" : "light"); };
  const turn = () => {
    const next = root.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("d2lbert-slides-theme", next); } catch { /* for this page only */ }
    root.dataset.theme = next;
  };
  theme.addEventListener("change", paint);
  paint();

  function formulas() {
    if (!script.dataset.mathjax) return Promise.resolve();
    window.MathJax = { loader: { load: ["input/tex", "output/chtml", "a11y/assistive-mml"] } };
    return new Promise((resolve) => {
      const loader = document.createElement("script");
      loader.src = `${script.dataset.mathjax}/startup.js`;
      loader.onload = () => window.MathJax.startup.promise.then(resolve, resolve);
      loader.onerror = resolve; // without it the slides show the formulas as they are written
      document.head.append(loader);
    });
  }

  // A figure to play with is as high as it is: it becomes smaller until its slide has room, or else it scrolls.
  function fit() {
    const box = document.querySelector("section.present .play");
    if (!box) return;
    box.style.zoom = 1;
    box.style.maxHeight = "none";
    const body = box.parentElement;
    const others = [...body.children].filter((node) => node !== box);
    const gap = parseFloat(getComputedStyle(body).rowGap);
    const room = body.clientHeight - others.reduce((sum, node) => sum + node.offsetHeight + gap, 0);
    const zoom = Math.min(1, Math.max(0.65, room / box.scrollHeight));
    box.style.zoom = zoom;
    box.style.maxHeight = `${room / zoom}px`;
  }

  formulas()
    .then(() =>
      Reveal.initialize({
        width: 1280,
        height: 720,
        margin: 0.02,
        center: false,
        display: "flex",
        hash: true,
        slideNumber: "c/t",
        transition: "none",
        keyboard: { 68: turn }, // D
        plugins: [RevealNotes],
      }),
    )
    .then(() => {
      Reveal.addKeyBinding({ keyCode: 68, key: "D", description: "Light or dark" }, turn);
      Reveal.on("slidechanged", fit);
      const watch = new ResizeObserver(fit);
      for (const box of document.querySelectorAll(".play > *")) watch.observe(box);
      fit();
      root.dataset.ready = "yes";
    });
})();
