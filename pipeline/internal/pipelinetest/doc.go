// Package pipelinetest is what the tests of package pipeline and of the packages
// below it share: logs, errors that must name things, and servers. Servers are
// real ones (package natsserver): nothing here imitates NATS. No product code
// imports it, and it imports no stage, so that the tests inside package pipeline
// can use it.
package pipelinetest
