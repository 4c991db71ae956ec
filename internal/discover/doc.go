// Package discover finds machines and channels in the messages of a broker, or in the address space
// of a server, without a configuration: it proposes the settings of a gateway (topics, channels,
// time, stream id, nodes).
//
// # Forms of messages
//
//	JSON object, or a list of objects   the topic is a machine, each field with a number a channel;
//	                                    a text field such as machine_id divides a topic
//	object with lists of equal length   as above; each element is a sample
//	single value                        the last level of the topic is the channel, the levels
//	                                    before are the machine
//
// Other messages are listed in Layout.Other with the reason. A field is a channel only if each
// message of the topic has it, because a gateway refuses messages without a channel. Fields
// named time, ts and similar are the time of the sample, if their values are dates.
//
// # Kinds
//
// Machines of the same channels and form are a kind. A kind has patterns of topics: levels with
// different texts are wildcards. If a pattern also matches other topics, Keys lists
// the machines of the kind.
//
// # Files
//
//   - observe.go: keeps the messages of the first seconds
//   - fields.go: finds the values in a message
//   - layout.go: divides topics into kinds of machines
//   - patterns.go: makes the patterns of a kind's topics
//   - variables.go: divides an address space into kinds of machines
//   - samples.go: grades channels, and measures the rate of machines
package discover
