// Command browser is the lab in a browser: what a shop runs for the page's scheduler, and for
// a cell of the lab, compiled to WebAssembly. Redis is miniredis in the same memory, and time
// is virtual. It is for the page's labworker.js.
package main
