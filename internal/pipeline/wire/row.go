package wire

// RowRef is a state row outside the engine: its message in the NATS stream <JOB>-ROWS,
// and the hash of its bytes.
type RowRef struct {
	Seq  uint64 // 0 = none
	Hash Digest
}
