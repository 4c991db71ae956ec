// Package hardware describes this machine: processor, memory, NVIDIA devices.
package hardware
