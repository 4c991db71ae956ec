// Package modbus polls the registers of Modbus TCP servers and gives their samples to a
// gateway.
//
// A poll is due at each whole multiple of Options.Interval (time since 1970). This time is the
// time of the samples: a register has no time. A poll may start late by half an interval; the
// client skips later polls.
//
// A stream gets a sample from a poll if the poll has read all registers of the stream.
// Otherwise the stream gets no sample, and the next sample carries the flag gap. The client
// never invents a value.
//
// One request reads adjacent registers (registers.go), over one connection, unit after unit. If
// a device refuses an address or a number of registers, the client halves the request, and then
// the halves, until only the missing registers are refused. So all other registers are read,
// and the log names the channel.
//
// The client retries a unit after .5 s, then 1 s, up to 10 s if the unit does not answer, or
// answers invalid Modbus. Meanwhile the client reads the other units. After an invalid answer
// the client reconnects, because the start of the next answer in the stream is unknown.
//
// # Files
//
//   - client.go: polls servers and makes samples
//   - link.go: exchanges requests and answers over a connection
//   - registers.go: parses registers and joins adjacent registers
//   - servers.go: assigns registers to servers
//   - value.go: converts registers to values
//   - none.go: recognizes registers without a value
package modbus
