// Package web takes messages over HTTP for a gateway. The answer 204 goes out
// after the server has acknowledged the message.
//
// # Files
//
//   - server.go: serves requests with samples
//   - body.go: reads bodies and closes slow requests
//   - influx.go: answers as InfluxDB does
package web
