// Package inlog is what programs need that work beside the live stage and take
// no part in its job: the messages of a job's input in their order (Log), and
// files that only one of them writes (Lock). It publishes nothing, and makes
// nothing on the server but a consumer in memory.
package inlog
