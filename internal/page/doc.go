// Package page serves the shop's web page, and the API that only the page uses.
package page
