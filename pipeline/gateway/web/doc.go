// Package web takes messages over HTTP for a gateway. The answer 204 goes out
// after the server has acknowledged the message.
package web
