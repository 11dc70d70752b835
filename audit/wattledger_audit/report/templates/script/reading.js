// Light or dark by hand, and paper: everything that opens is open while it is printed.
const theme = document.getElementById("theme");
const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
const paper = window.matchMedia("print");
let openedForPaper = [];

function isDark() {
  const chosenTheme = document.documentElement.dataset.theme;
  return chosenTheme ? chosenTheme === "dark" : prefersDark.matches;
}

function nameTheme() {
  theme.textContent = isDark() ? "Light" : "Dark";
  theme.setAttribute("aria-label", "Switch to " + (isDark() ? "light" : "dark") + " colours");
}

function openForPaper() {
  const closed = [...document.querySelectorAll("details:not([open])")];
  for (const details of closed) details.open = true;
  openedForPaper = openedForPaper.concat(closed);
}

function closeAfterPaper() {
  for (const details of openedForPaper) details.open = false;
  openedForPaper = [];
}

theme.hidden = false;
theme.addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  nameTheme();
});
prefersDark.addEventListener("change", nameTheme);
nameTheme();
window.addEventListener("beforeprint", openForPaper);
window.addEventListener("afterprint", closeAfterPaper);
paper.addEventListener("change", (event) => (event.matches ? openForPaper() : closeAfterPaper()));
