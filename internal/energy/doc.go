// Package energy measures the energy of work: a Meter counts the joules of a device, an Account
// divides them among the running work.
//
// A counter covers the whole device. Gross energy is the device's energy during the work,
// including other programs; energy above idle is gross energy minus the energy at rest, from
// the power measured before the work. Simultaneous pieces of work get equal parts, so the parts
// add up to the total.
//
// Missing measurements are absent, never a number: amounts are nil, and the error has the
// reason.
//
// RAPL reads the processor's counters, available on Linux for Intel and AMD under
// /sys/class/powercap. Virtual machines usually have no counters.
//
// # Files
//
//   - account.go: divides the energy of a device among concurrent pieces of work
//   - rapl.go: reads the energy counters of processors (RAPL)
//   - used.go: measures a piece of work on all devices
package energy
