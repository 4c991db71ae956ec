package wire

// RowRef is a state row that is not in the engine: its message in the NATS
// stream <JOB>-ROWS, and what its bytes must hash to.
type RowRef struct {
	Seq  uint64 // 0 = none
	Hash Digest
}
