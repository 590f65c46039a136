//go:build system

package backendtest

const tagged = true
