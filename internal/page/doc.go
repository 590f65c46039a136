// Package page provides the web page of the shop, and what the page asks for
// besides the shop's API.
package page
