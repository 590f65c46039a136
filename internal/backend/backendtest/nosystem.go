//go:build !system

package backendtest

const tagged = false
