// Package disk says how a job fills its server's disk: what "run" logs about it, and
// what "doctor" finds.
package disk
