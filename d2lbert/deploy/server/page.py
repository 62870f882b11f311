"""The page at ``/``: a form that asks the server it came from, and nobody else."""

from __future__ import annotations

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>d2lbert: try a model</title>
<style>
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 44rem; margin: 2rem auto; padding: 0 1rem; }
label { display: block; margin-top: 1rem; font-weight: 600; }
select, textarea, button { font: inherit; width: 100%; box-sizing: border-box; padding: .4rem; }
button { margin-top: 1rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; border: 1px solid; padding: .8rem; min-height: 3rem; }
</style>
</head>
<body>
<h1>Try a model</h1>
<form>
<label for="model">Model</label><select id="model"></select>
<label for="text">Text</label><textarea id="text" rows="4" required>a warm and funny film</textarea>
<label for="second">Second text or question, where the model reads two; choices, one a line</label>
<textarea id="second" rows="2"></textarea>
<button>Ask</button>
</form>
<h2 id="heading">Answer</h2>
<pre id="answer" role="status" aria-labelledby="heading"></pre>
<script>
const models = MODELS, $ = id => document.getElementById(id);
for (const name of models) $("model").add(new Option(name, name));
document.querySelector("form").addEventListener("submit", async event => {
  event.preventDefault();
  const content = { text: $("text").value, model: $("model").value };
  const seconds = $("second").value.split("\\n").filter(line => line.trim());
  if (seconds.length === 1) content.pair = seconds[0];
  if (seconds.length > 1) content.choices = seconds;
  $("answer").textContent = "...";
  try {
    const headers = { "Content-Type": "application/json" };
    const reply = await fetch("invocations", { method: "POST", headers, body: JSON.stringify(content) });
    $("answer").textContent = JSON.stringify(await reply.json(), null, 2);
  } catch (error) { $("answer").textContent = "no answer: " + error; }
});
</script>
</body>
</html>
"""
