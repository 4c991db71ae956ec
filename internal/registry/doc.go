// Package registry stores the models of a job next to its data: in the bucket
// <JOB>-MODELS of the server's object store. From there a worker reads the job's model,
// and every readout that the job has used, now or in a replay.
//
// An entry is one object. Its name is the fingerprint of a readout (Fingerprint); its
// content is the whole model file; its description (Entry: origin, publisher, time, a
// note) is JSON in the object's metadata, under the key eusn-about:
//
//	{"version":1,"network":"...","readout":"default","classes":["a","b"],"model":"machine.safetensors","sha256":"...","training":{...},"who":"anna","when":"2026-02-01T08:00:00Z"}
//
// An entry never changes. It can be retired: an object <fingerprint>.retired records
// the person and the time. A retired entry cannot be promoted, but it can be read,
// because a replay of old input needs it.
//
// Content is checked on reading: the server's client compares the bytes with their
// SHA-256, the model file contains its own checksum, and its readout must have the
// fingerprint that names the entry. Content that is incomplete, damaged or of another
// entry gives ErrDamaged, and publishing the same model again repairs it.
//
// All entries of a job have the job's network: the same weights, input scaling,
// channels, policy, front end and arithmetic, because they share its states. Publish
// and Model refuse another network: workers that begin a new job at the same time with
// different networks may each store a model before one of them has begun the job.
//
// A job's entry on <job>.out.job (see package pipeline) names the job's first readout.
// In a job that reads Arrow, it is the fingerprint; otherwise it is the SHA-256 of
// fingerprint and input format (Identity).
//
// # Files
//
//   - registry.go: publishes, lists and reads the models of a job
//   - entry.go: encodes the description of a model
//   - fingerprint.go: identifies readouts and networks
//   - retire.go: retires a model
package registry
