// Package mqtt takes messages of MQTT devices, 3.1.1 and 5, for a gateway: as a
// broker of its own (Broker), or as a client of another one (Client). A PUBACK
// or PUBREC goes out after the server has acknowledged the message, in the order
// in which the messages came.
package mqtt
