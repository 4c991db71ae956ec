// Package modbus polls the registers of a Modbus TCP server, and gives a gateway
// samples of them.
//
// A poll is due at each whole multiple of Options.Interval (time since 1970), and
// that is the time of its samples: a register has no time of its own. A poll may begin
// late by half an interval. One that is due earlier than that is left out.
//
// A stream gets a sample of a poll if all of its registers were read in it. If one
// was not, the stream has none, and its next sample carries the flag gap. Nothing is
// made up for a register that was not read.
//
// Registers that touch are read together (registers.go), over one connection, unit
// after unit. If a device refuses an address or a number of registers, the request is
// halved, and its halves, until those registers are alone that the device does not
// have. So the others are read, and the log names the channel.
//
// A unit that does not answer, or not as Modbus has it, is left alone for .5 s, then
// 1 s, up to 10 s. Meanwhile the other units are read. After an answer that is none the
// connection is made again, because nobody knows where the next one begins.
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
