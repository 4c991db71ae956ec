// Package fleet says how a job is: what its processes say of themselves, gathered over
// NATS, and what the server says of the job, in one report with a verdict and what to do
// first.
package fleet
