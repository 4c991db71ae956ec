// Package energy measures the energy that work takes: a Meter counts joules of
// a device, an Account divides them among what runs on it.
//
// A counter knows nothing of programs. Gross energy is all that the device
// took while the work ran, other programs' share included; above idle is that
// less what it would have taken at rest, by the power measured before the
// work. Where several pieces of work run at once each gets an equal part, so
// that the parts add up to what was counted.
//
// What cannot be measured is absent, never a number: amounts are nil, and the
// error says why.
//
// RAPL reads the processor's own counters, which Linux shows for Intel and AMD
// under /sys/class/powercap. Virtual machines mostly have none.
//
// # Files
//
//   - account.go: divides the energy of a device among concurrent pieces of work
//   - rapl.go: reads the energy counters of processors (RAPL)
//   - used.go: measures a piece of work on all devices
package energy
