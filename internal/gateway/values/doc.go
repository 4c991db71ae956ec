// Package values makes samples from messages with a single value each, whose topic names the
// machine and the channel. The last level of a key is the channel, the levels before are the key
// of the stream: plant/pump7/x with the pattern plant/+/+ is channel x of stream pump7.
//
// Such messages have no time of their own: a value has the time of its arrival. Without a
// period, a sample is complete when every channel has a new value, or when a channel has its
// second new value: slower channels keep their last value. With a period, each whole multiple of
// the period has a sample (package internal/image). The first sample needs a value of every
// channel. Topics whose last level is no channel are ignored.
//
// A value is acknowledged before its sample is complete; a value that completes a sample is
// acknowledged when the sample is stored. A restarted gateway recognizes repeated values of
// complete samples, and has lost the values of incomplete samples: their repetitions are new.
//
// # Files
//
//   - values.go: makes samples from single values
package values
