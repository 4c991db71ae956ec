// Package planttest runs the program, a NATS server and other programs in separate
// processes, for tests with kill -9: a single command (Command), or a plant of services
// with automatic restart (Plant). TestMain of a package with such tests calls Main. Only
// tests import the package.
package planttest
