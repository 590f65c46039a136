// The theme that was chosen, before anything is painted. Without a choice it is
// the system's.
try {
  const theme = localStorage.getItem("theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage is off: nothing is remembered.
}
