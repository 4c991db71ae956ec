// Package hardware says what this machine is: processor, memory, NVIDIA devices.
package hardware
