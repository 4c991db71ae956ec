// Package registry stores the models of a job next to its data: in the bucket
// <JOB>-MODELS of the server's object store. From there a worker reads the job's model,
// and every readout that the job has used, now or in a replay.
//
// An entry is an object. The name is the fingerprint of a readout (Fingerprint); the
// content is the whole model file; the description (Entry: origin, publisher, time, a
// note) is JSON in the object's metadata, under the key eusn-about:
//
//	{"version":1,"network":"...","readout":"default","classes":["a","b"],"model":"machine.safetensors","sha256":"...","training":{...},"who":"anna","when":"2026-02-01T08:00:00Z"}
//
// An entry never changes. It can be retired: an object <fingerprint>.retired records the
// person and the time. A retired entry cannot be promoted, but remains readable for a
// replay of old input.
//
// Content is checked on reading: the server's client compares the bytes with the SHA-256,
// the model file contains a checksum, and the readout must have the fingerprint in the
// entry's name. Incomplete, damaged or swapped content gives ErrDamaged, and republishing
// the same model repairs the entry.
//
// All entries of a job have the job's network: the same weights, input scaling, channels,
// policy, front end and arithmetic, because all readouts share the states. Publish and
// Model refuse another network: workers that begin a new job at the same time with
// different networks may each store a model before the job has begun.
//
// A job's entry on <job>.out.job (see package pipeline) names the job's first readout.
// For Arrow input, this name is the fingerprint; otherwise the SHA-256 of fingerprint and
// input format (Identity).
//
// # Files
//
//   - registry.go: publishes, lists and reads the models of a job
//   - entry.go: encodes the description of a model
//   - fingerprint.go: identifies readouts and networks
//   - retire.go: retires a model
package registry
