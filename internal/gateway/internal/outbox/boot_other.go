//go:build !linux

package outbox

// bootID is not known here.
var bootID = func() string { return "" }
