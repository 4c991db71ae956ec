// Package planttest runs the program, a NATS server and other programs in processes of
// their own, which tests kill (kill -9): one command (Command), or a plant whose
// services begin again whenever they end (Plant). TestMain of a package that uses it is
// Main. Only tests import it.
package planttest
