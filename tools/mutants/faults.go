package main

// protocol are faults in the commit protocol, in the order of stores, and in the rights
// to write. A test of seconds finds each fault.
var protocol = []planted{
	{
		name: "commit: a stale owner overwrites the record of the next", simulated: true,
		file: "internal/pipeline/store/commit.go", pkg: "pipeline", test: "TestZombieIsFenced",
		old: "	m.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(expect, 10)}\n",
		new: "	_ = strconv.FormatUint(expect, 10)\n",
	},
	{
		name: "commit: an answer is relied on without an end", simulated: true,
		file: "internal/pipeline/store/commit.go", pkg: "internal/pipeline/store", test: "TestOldAnswersAreNotReliedOn",
		old: "now.reconnects == q.reconnects && now.at.Sub(q.at) < surely",
		new: "now.reconnects == q.reconnects",
	},
	{
		name: "claim: a rebuilt state is not compared with the digest", simulated: true,
		file: "internal/pipeline/state/digest.go", pkg: "internal/pipeline/state", test: "TestDigestIsCompared",
		old: "if p.Sum != want.Digest {",
		new: "if false {",
	},
	{
		name: "claim: the creation time of the input is not compared", simulated: true,
		file: "internal/pipeline/owner/checkinput.go", pkg: "pipeline", test: "TestDamageStops/input_gone",
		old: `c.Record.Created != "" && c.Record.Created != created {`,
		new: "false {",
	},
	{
		name: "trim: a message is removed that the next owner reads", simulated: true,
		file: "internal/pipeline/store/trim.go", pkg: "internal/pipeline/store", test: "TestNeeded",
		old: "	return r.SnapSeq + 1\n",
		new: "	return r.SnapSeq + 2\n",
	},
	{
		name: "promotion: the number before is noted for a sequence", simulated: true,
		file: "internal/pipeline/state/promotion.go", pkg: "internal/pipeline/state", test: "TestPromotionAtTheNextSequence",
		old: "	st.began[state] = p.Promotion().Number\n",
		new: "	st.began[state] = max(1, p.Promotion().Number) - 1\n",
	},
	{
		name: "promotion: one of another job is taken", simulated: true,
		file: "internal/pipeline/state/silence.go", pkg: "internal/pipeline/state", test: "TestPromotionOfAnotherJob",
		old: "s.OneReadout || e.Job != s.Events || ",
		new: "s.OneReadout || ",
	},
	{
		name: "resize: the cut is one message late", simulated: true,
		file: "internal/operate/mapping.go", pkg: "pipeline", test: "TestResizeInterrupted",
		old: "c.cut, c.switched = seq-1, true",
		new: "c.cut, c.switched = seq, true",
	},
	{
		name: "alarms: an event does not name the message before it",
		file: "internal/watch/together.go", pkg: "internal/watch", test: "TestEventsFenced",
		old: "	m.Header.Set(jetstream.ExpectedLastSeqHeader, strconv.FormatUint(b.last+uint64(i), 10))\n",
		new: "",
	},
	{
		name: "alarms: an identical message of another writer is taken for one's own",
		file: "internal/watch/publish.go", pkg: "internal/watch", test: "TestEventOfAnotherWriter",
		old: " && there.Header.Get(wire.HeaderWorker) == b.writer:",
		new: ":",
	},
	{
		name: "alarms: the bucket of the latest has two writers",
		file: "internal/watch/latest.go", pkg: "internal/watch", test: "TestLatestOfOneWriter",
		old: "	h[jetstream.ExpectedLastSeqHeader] = []string{strconv.FormatUint(l.last, 10)}\n",
		new: "	_ = strconv.Itoa\n",
	},
	{
		name: "alarms: the state is stored without the rest of the events",
		file: "internal/watch/book.go", pkg: "internal/watch", test: "TestPowerFailure",
		old: "f.Encode(tail...)",
		new: "f.Encode()",
	},
	{
		name: "outbox: numbers after a power failure are not in doubt",
		file: "internal/gateway/internal/outbox/log.go", pkg: "internal/gateway/internal/outbox", test: "TestDoubt",
		old: "			n.Doubt = true\n",
		new: "			n.Doubt = false\n",
	},
	{
		name: "recorder: the position is one message ahead",
		file: "internal/pipeline/record/record.go", pkg: "internal/cli/loop", test: "TestRecordRefuses",
		old: "r.at.File+1, r.at.To, r.after,",
		new: "r.at.File+1, r.at.To, inlog.Place{Seq: r.after.Seq + 1, Stored: r.after.Stored},",
	},
	{
		name: "outbox: what is written at the end of a run is not synced",
		file: "internal/gateway/internal/outbox/log.go", pkg: "internal/gateway/internal/outbox", test: "TestEndIsSynced",
		old: "		if err := durable.Sync(s.f); err != nil {\n",
		new: "		if err := error(nil); s == nil {\n",
	},
	{
		name: "backfill: the position is stored before its lines are synced",
		file: "internal/replay/backfill_output.go", pkg: "internal/replay", test: "TestLinesBeforePosition",
		old: "	if err := durable.Sync(o.file); err != nil {\n		return fmt.Errorf(\"backfill: %w\", err)\n	}\n",
		new: "	_ = durable.Sync\n",
	},
	{
		name: "learn: a segment gets its name before it is synced",
		file: "internal/learn/segment.go", pkg: "internal/learn", test: "TestStoreIsDurable",
		old: "	if err := durable.Commit(w.file, w.path, 0o600); err != nil {\n",
		new: "	_ = durable.Commit\n	if err := os.Rename(w.file.Name(), w.path); err != nil {\n",
	},
	{
		name: "recorder: a file gets its name before it is synced",
		file: "offline/archive/archive.go", pkg: "offline", test: "TestArchivesAreDurable",
		old: "		err = durable.Commit(a.tmp, a.path, private)\n",
		new: "		_ = durable.Commit\n		err = os.Rename(a.tmp.Name(), a.path)\n",
	},
	{
		name: "durable: a file gets its name before it is synced",
		file: "internal/durable/durable.go", pkg: "internal/durable", test: "TestWrite",
		old: "errors.Join(f.Chmod(mode), Sync(f), f.Close())",
		new: "errors.Join(f.Chmod(mode), f.Close())",
	},
	{
		name: "durable: the name of a file is not synced",
		file: "internal/durable/durable.go", pkg: "internal/durable", test: "TestWrite",
		old: "			return SyncFolder(filepath.Dir(path))\n",
		new: "			return nil\n",
	},
	{
		name: "retire: replaced snapshots are deleted at once", simulated: true,
		file: "internal/pipeline/owner/retire.go", pkg: "internal/pipeline/owner", test: "TestReplacedIsKept",
		old: `if snap != "" && (keep == 0 || t.lastKept.Add(keep).After(now)) {`,
		new: `if snap != "" {`,
	},
	{
		name: "snapshot: a commit names it before it is stored", simulated: true,
		file: "internal/pipeline/owner/release.go", pkg: "pipeline", test: "TestUnstoredSnapshotIsNotNamed",
		old: "	begin := time.Now()\n	if err := t.w.Server.Snaps.Put(ctx, name, b); err != nil {\n",
		new: "	begin := time.Now()\n	t.storing.noteArrived(&stored{name, seq, begin, home})\n	if err := t.w.Server.Snaps.Put(ctx, name, b); err != nil {\n",
	},
	{
		name: "generation: a worker claims records of another one", simulated: true,
		file: "internal/pipeline/owner/compatible.go", pkg: "pipeline", test: "TestOtherGenerationIsNotClaimed",
		old: "	if r.Generation == w.Generation || w.Drain",
		new: "	if r.Generation >= w.Generation || w.Drain",
	},
	{
		name: "resize: the digest of a snapshot is not compared with its record", simulated: true,
		file: "internal/operate/redistribute.go", pkg: "pipeline", test: "TestResizeCompares/a_state_that_is_not_the_record's",
		old: "if r.Mark.Seq > 0 && digest != r.Mark.Digest {",
		new: "if false {",
	},
	{
		name: "resize: the sums before and after are not compared", simulated: true,
		file: "internal/operate/redistribute.go", pkg: "pipeline", test: "TestResizeCompares/a_state_that_is_not_what_was_stored",
		old: "if after != before {",
		new: "if false {",
	},
	{
		name: "resize: epochs do not rise", simulated: true,
		file: "internal/operate/redistribute.go", pkg: "pipeline", test: "TestResizeCompares/nothing",
		old: "max(now.Epoch+1, r.Epoch)",
		new: "now.Epoch",
	},
}
