// The quiz of a page: a chosen answer says why it is right or wrong, to the eye and to a screen reader. What was chosen is
// kept in this browser alone. Without this script the explanations stand in folds (tools/quizzes.py writes the page).

/** Return what was chosen on an earlier visit: for each question a number or null. */
function remembered(key, questions) {
  try {
    const kept = JSON.parse(localStorage.getItem(key));
    if (Array.isArray(kept) && kept.length === questions) return kept;
  } catch {
    // Storage is off, or holds something else: begin anew.
  }
  return Array(questions).fill(null);
}

function remember(key, chosen) {
  try {
    localStorage.setItem(key, JSON.stringify(chosen));
  } catch {
    // Storage is off: the answers last as long as the page.
  }
}

class Quiz extends HTMLElement {
  connectedCallback() {
    if (this.chosen) return; // moved within the page
    this.key = `d2lbert-quiz-${this.dataset.name}`;
    this.fields = [...this.querySelectorAll("fieldset")];
    this.chosen = remembered(this.key, this.fields.length);
    this.fields.forEach((field, number) => {
      field.querySelector("details").hidden = true;
      const buttons = [...field.querySelectorAll("input")];
      buttons.forEach((button, place) => {
        button.checked = place === this.chosen[number];
        button.addEventListener("change", () => this.choose(number, place));
      });
      if (buttons[this.chosen[number]]) this.show(number);
    });
    const again = document.createElement("button");
    again.type = "button";
    again.textContent = "Start again";
    again.addEventListener("click", () => this.forget());
    this.append(again);
    this.count();
  }

  choose(number, place) {
    this.chosen[number] = place;
    remember(this.key, this.chosen);
    this.show(number);
    this.count();
  }

  /** Say why the answer to a question is right or wrong, and where it stands. */
  show(number) {
    const field = this.fields[number];
    const answer = field.querySelectorAll("li")[this.chosen[number]];
    const why = answer.querySelector("span").cloneNode(true);
    const where = field.querySelector("details p").cloneNode(true);
    field.querySelector(".told").replaceChildren(why, " ", ...where.childNodes);
    field.dataset.answer = answer.className;
  }

  count() {
    const right = this.fields.filter((field) => field.dataset.answer === "right").length;
    const answered = this.chosen.some((place) => place !== null);
    this.querySelector(".score").textContent = answered ? `Right: ${right} of ${this.fields.length}.` : "";
  }

  forget() {
    this.chosen.fill(null);
    remember(this.key, this.chosen);
    for (const field of this.fields) {
      delete field.dataset.answer;
      field.querySelector(".told").replaceChildren();
      for (const button of field.querySelectorAll("input")) button.checked = false;
    }
    this.count();
    this.querySelector("input").focus();
  }
}

customElements.define("d2l-quiz", Quiz);
