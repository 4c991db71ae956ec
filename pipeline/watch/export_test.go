package watch

// RunWith is Run with a connection that a test may stand behind.
var RunWith = run
