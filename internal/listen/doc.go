// Package listen limits what the clients of a listener may take before they log in:
// how many connections a listener has at a time, how many of them come from one
// address, and how many files all listeners of the process may have open together.
//
// A process that has no file left for a connection has none for its store either, so
// limits are chosen such that their sum is below the limit of the system (CheckFiles).
package listen
