// Package formats reads messages in other formats than Arrow: JSON, CSV, Influx line
// protocol, SenML and bare numbers. Each message becomes the same plain slices as an
// Arrow message in package codec (codec.Batch), so that the same samples give the same
// predictions, bit for bit, in any format.
//
//	in := formats.Input{Format: formats.JSON, Channels: map[string]string{"c0": "$.axis.x"}}
//	d, err := formats.New(in, codec.Schema{Channels: []string{"c0"}})
//	err = d.Decode(payload, &batch)
//
// An Input completely determines the reading of a message: the format, and the places of
// each channel, the time, the stream id and the end mark. It is plain data; Text and
// Parse write and read it.
//
// # Numbers
//
// A number in a text is rounded once, from its decimal digits to the nearest float32
// (strconv.ParseFloat with 32 bits). So the shortest decimal of a float32 returns this
// float32. A decimal beyond float32 becomes infinite. Whole numbers follow the same rule:
// 16777217 becomes 16777216, as an int64 of an Arrow message does. With a scale or an
// offset the digits are read as float64, then x*scale and +offset are each rounded to
// float64, and the result once to float32.
//
// true is 1 and false is 0. null in JSON and an empty cell in CSV are missing samples;
// NaN and infinities, also as texts ("NaN", "-inf"), are not finite.
// codec.Schema.NonFinite sets the treatment of both. A text with a number is this number.
// A channel that is absent from the message is an error: treating it as missing would
// hide a wrong mapping.
//
// # Untrusted bytes
//
// No payload makes a decoder panic. The allocations of a call are bounded by a multiple
// of the payload's size plus a constant (the tests allow 64 times plus 3 MiB). JSON is at
// most 10,000 levels deep, has no duplicate name in an object, and is UTF-8. After a
// first message of a size, JSON and bare numbers cost no allocation, except for texts of
// numbers of more than 32 bytes; CSV costs about fifteen per message and one per line
// (encoding/csv), line protocol one per message.
//
// The formats themselves, with tables of accepted messages: docs/formats.md.
//
// # Files
//
//   - formats.go: creates the decoder of a format; detects the format of each message (auto)
//   - input.go: describes how messages are read (Input): format, units, places of values
//   - source.go: parses the settings that give the place of a value in a message
//   - looks.go: guesses the format of a message from its first bytes
//   - json.go: parses JSON messages
//   - json_values.go: converts JSON values; formats the syntax errors
//   - csv.go: parses CSV messages
//   - influx.go: parses Influx line protocol
//   - influx_lines.go: finds the ends of lines in a stream of bytes
//   - senml.go: parses SenML packs and sorts their records by time
//   - senml_record.go: decodes SenML records from JSON and CBOR
//   - raw.go: reads bare binary numbers
//   - number.go: converts texts to samples and times; applies scale and offset
//   - table.go: collects rows, times, stream ids and end marks of a message
//   - named.go: finds the channel of a named value (Sparkplug B and other field buses)
//   - errors.go: defines the errors of unreadable messages
package formats
