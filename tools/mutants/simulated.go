package main

// simulated are faults of the live stage, of promotion and of resize without an own test:
// the simulation must find each fault.
var simulated = []planted{
	{
		name: "commit: the record of another worker is taken for an own commit", file: "internal/pipeline/store/commit.go",
		old: "case seq > c.Last && r == c.next:",
		new: "case seq > c.Last:",
	},
	{
		name: "commit: a commit without an answer is not repeated", file: "internal/pipeline/store/commit.go",
		old: "switch err = c.publishAgain(ctx); {",
		new: "switch c.Accept(c.next, c.Last, q); {",
	},
	{
		name: "commit: a commit without an answer is repeated after a break without reading the record", file: "internal/pipeline/store/commit.go",
		old: "case !c.IsSure(q) && c.isFenced(): // re-read the record",
		new: "case false:",
	},
	{
		name: "commit: a commit is sent without a sure record", file: "internal/pipeline/store/commit.go",
		old: "if c.future = nil; c.IsSure(c.Heard) {",
		new: "if c.future = nil; c.Heard.at.Before(time.Now().Add(1)) {",
	},
	{
		name: "claim: the epoch does not rise", file: "internal/pipeline/store/commit.go",
		old: "			r.Epoch++\n",
		new: "			r.Epoch = max(r.Epoch, 1)\n",
	},
	{
		name: "claim: a claim names no expected message", file: "internal/pipeline/store/commit.go",
		old: "	return c.JS.PublishMsg(ctx, c.newMessage(r, expect, body), jetstream.WithRetryAttempts(0))\n",
		new: "	m := c.newMessage(r, expect, body)\n	delete(m.Header, jetstream.ExpectedLastSubjSeqHeader)\n	return c.JS.PublishMsg(ctx, m, jetstream.WithRetryAttempts(0))\n",
	},
	{
		name: "claim: a living owner is not waited for", file: "internal/pipeline/store/commit.go",
		old: "case seq > 0 && wait(r):",
		new: "case seq > 0 && wait(r) && r.Epoch == 0:",
	},
	{
		name: "rows: a stored row is not compared with its hash", file: "internal/pipeline/store/rowstore.go",
		old: "len(data) != 4*words || wire.HashOf(data) != ref.Hash",
		new: "len(data) != 4*words",
	},
	{
		name: "claim: an input shorter than the record is accepted", file: "internal/pipeline/owner/checkinput.go",
		old: "case in.LastSeq < c.Record.InSeq:",
		new: "case in.LastSeq < c.Record.InSeq && in.LastSeq > c.Record.InSeq:",
	},
	{
		name: "claim: the last message is not compared with the input", file: "internal/pipeline/owner/checkinput.go",
		old: "if err := t.w.Server.In.CheckUnchanged(ctx, p.State.ID, at); err != nil {",
		new: "if err := ctx.Err(); err != nil {",
	},
	{
		name: "claim: Eusn-Ahead is not used", file: "internal/pipeline/owner/checkinput.go",
		old: "ReplayTo: c.Record.InSeq, Skip: c.Record.Ahead}",
		new: "ReplayTo: c.Record.InSeq}",
	},
	{
		name: "claim: messages after the snapshot are predicted twice", file: "internal/pipeline/owner/checkinput.go",
		old: "ReplayTo: c.Record.InSeq, Skip",
		new: "ReplayTo: c.Record.SnapSeq, Skip",
	},
	{
		name: "claim: a partition with snapshots begins without its record", file: "internal/pipeline/owner/checkinput.go",
		old: "		if e.Epoch > 0 {\n",
		new: "		if e.Epoch > 1<<40 {\n",
	},
	{
		name: "input: lost messages are not reported", file: "internal/pipeline/owner/checkinput.go",
		old: "lost = info.State.FirstSeq > t.Input.knownLast()+1",
		new: "lost = false",
	},
	{
		name: "input: a recreated consumer does not compare the input", file: "internal/pipeline/owner/receive.go",
		old: "ask := meta.Sequence.Consumer == 1 || v.Doubt.Load() || pending+1 < v.unread.Load()",
		new: "ask := v.Doubt.Load() || pending+1 < v.unread.Load()",
	},
	{
		name: "input: own reading resumes one message late", file: "internal/pipeline/owner/receive.go",
		old: "t.readInput(t.Input.passed.Load() + 1)",
		new: "t.readInput(t.Input.passed.Load() + 2)",
	},
	{
		name: "common: missing messages are not noticed", file: "internal/pipeline/owner/common.go",
		old: "if ofConsumer != r.count+1 || r.count > 0 && unread+1 < r.unread { // see Receive",
		new: "if ofConsumer == 0 { // see Receive",
	},
	{
		name: "common: a partition joins before its messages are in the shard", file: "internal/pipeline/owner/common.go",
		old: "if seq < c.now.at || seq-c.now.at > nearby {",
		new: "if seq > c.now.at && seq-c.now.at > nearby {",
	},
	{
		name: "emit: dead letters follow the commit", file: "internal/pipeline/owner/emit.go",
		old: "	e.publishDead(ctx, b)\n	for _, i := range b.Touched {\n		e.cursor[i] = 0\n		if a := &b.Answers[i]; a.Tick && !a.Part.Failed() {\n			a.Commit = ownerOf(a.Part).hasToSay(a.InSeq) || a.Commit\n		}\n	}\n	e.commits = 0\n	for more := true; more; {\n		more = e.publishRound(ctx, b)\n	}\n",
		new: "	for _, i := range b.Touched {\n		e.cursor[i] = 0\n		if a := &b.Answers[i]; a.Tick && !a.Part.Failed() {\n			a.Commit = ownerOf(a.Part).hasToSay(a.InSeq) || a.Commit\n		}\n	}\n	e.commits = 0\n	for more := true; more; {\n		more = e.publishRound(ctx, b)\n	}\n	e.publishDead(ctx, b)\n",
	},
	{
		name: "emit: an empty commit moves the position of a split commit", file: "internal/pipeline/owner/emit.go",
		old: "from == 0 && r.Ahead == 0 && moves",
		new: "from == 0 && moves",
	},
	{
		name: "emit: a record names a snapshot after its position", file: "internal/pipeline/owner/split.go",
		old: "if now != nil && now.seq <= r.Mark.Seq {",
		new: "if now != nil {",
	},
	{
		name: "emit: the position of a split commit is one prediction ahead", file: "internal/pipeline/owner/split.go",
		old: "a.At[k], uint64(to-1-k)",
		new: "a.At[k], uint64(to-k)",
	},
	{
		name: "emit: the third part of a split commit forgets the first", file: "internal/pipeline/owner/split.go",
		old: "p.Ahead += uint64(to - from)",
		new: "p.Ahead = uint64(to - from)",
	},
	{
		name: "rows: rows are deleted while a snapshot names them", file: "internal/pipeline/owner/storing.go",
		old: "for len(s.freed) > 0 && s.freed[0].seq <= seq {",
		new: "for len(s.freed) > 0 {",
	},
	{
		name: "rows: rows of the claimed snapshot are swept", file: "internal/pipeline/store/orphans.go",
		old: "olderRow(m.Subject, epoch) && !kept[seq]",
		new: "olderRow(m.Subject, epoch)",
	},
	{
		name: "rows: a stored row is not read back", file: "internal/pipeline/shard/spill.go",
		old: "	if !reset {\n",
		new: "	if reset {\n",
	},
	{
		name: "rows: two stored rows have the same id", file: "internal/pipeline/shard/spill.go",
		old: `fmt.Sprintf("%s.%d.%d", worker, p.State.ID, s.stored)`,
		new: `fmt.Sprintf("%s.%d.%d", worker, p.State.ID, s.stored/2)`,
	},
	{
		name: "slots: an open sequence loses its slot", file: "internal/pipeline/shard/compute.go",
		old: "if st.InUse { // a window",
		new: "if st.InUse && st.Slots == nil { // a window",
	},
	{
		name: "order: the last message is used twice", file: "internal/pipeline/state/source.go",
		old: "case n <= src.Last || src.holdsNumber(n):",
		new: "case n < src.Last || src.holdsNumber(n):",
	},
	{
		name: "order: a held message is held twice", file: "internal/pipeline/state/source.go",
		old: "case n <= src.Last || src.holdsNumber(n):",
		new: "case n <= src.Last:",
	},
	{
		name: "order: a message one number early is used", file: "internal/pipeline/state/source.go",
		old: "case n > src.Last+1:",
		new: "case n > src.Last+2:",
	},
	{
		name: "order: a gap sets no flag", file: "internal/pipeline/state/reorder.go",
		old: "	m.p.raiseFlag(src, outcome.FlagGap)\n	if !m.silent {\n		m.fx.Gaps++",
		new: "	if !m.silent {\n		m.fx.Gaps++",
	},
	{
		name: "order: one message more than the limit is held", file: "internal/pipeline/state/reorder.go",
		old: "len(src.Held) > s.Reorder ||",
		new: "len(src.Held) > s.Reorder+1 ||",
	},
	{
		name: "order: a new incarnation continues the numbers", file: "internal/pipeline/state/reorder.go",
		old: "src.incarnation, src.Last, src.sum = strings.Clone(inc), 0, 0",
		new: "src.incarnation = strings.Clone(inc)",
	},
	{
		name: "order: a message before the snapshot is applied again", file: "internal/pipeline/state/machine.go",
		old: "if j.Seq <= p.Done {",
		new: "if j.Seq < p.Done {",
	},
	{
		name: "dead letter: an unusable message sets no flag", file: "internal/pipeline/state/machine.go",
		old: "	m.p.raiseFlag(m.src, outcome.FlagPoisonSkipped)\n",
		new: "",
	},
	{
		name: "loss: a lost message sets no flag", file: "internal/pipeline/state/machine.go",
		old: "if j.Lost || p.Losses.mayPrecede(j.Seq) {",
		new: "if j.Lost && p.Losses.mayPrecede(j.Seq) {",
	},
	{
		name: "idle: a stream heard after the event ends", file: "internal/pipeline/state/silence.go",
		old: "if st == nil || st.heardIn > e.After {",
		new: "if st == nil {",
	},
	{
		name: "idle: the digest misses a stream that silence ended", file: "internal/pipeline/state/silence.go",
		old: "	m.p.Touch(st)\n	m.src, m.seq",
		new: `	m.src, m.seq`,
	},
	{
		name: "promotion: an older promotion takes effect", file: "internal/pipeline/state/silence.go",
		old: " || e.Number <= m.p.Promotion().Number {",
		new: " {",
	},
	{
		name: "promotion: open sequences use the new readout", file: "internal/pipeline/state/promotion.go",
		old: "	if !now {\n",
		new: "	if !now && next.Number == 0 {\n",
	},
	{
		name: "promotion: a restore forgets the readouts", file: "internal/pipeline/owner/restore.go",
		old: "			t.part.State.TakeOver(p)\n",
		new: "			p.ForgetPromotions()\n			t.part.State.TakeOver(p)\n",
	},
	{
		name: "resize: the old states may lack drained input", file: "internal/operate/change.go",
		old: "case next.Seq > 0 && next.Seq <= r.Cut:",
		new: "case next.Seq > 0 && next.Seq < r.Cut && r.To == 0:",
	},
	{
		name: "resize: the outputs of a partition are counted from zero", file: "internal/operate/redistribute.go",
		old: "then.Outs, then.Epoch = now.Outs,",
		new: "then.Outs, then.Epoch = 0*now.Outs,",
	},
	{
		name: "resize: old records keep their generation", file: "internal/operate/change.go",
		old: "now.Kind, now.Generation = wire.KindClaim, r.Generation+1",
		new: "now.Kind = wire.KindClaim",
	},
	{
		name: "gateway: a device is answered before its message is stored", file: "internal/gateway/batch.go", guests: "gateway",
		old: "m.Stored = append(m.Stored, t.noteStored)\n",
		new: "t.noteStored()\n",
	},
	{
		name: "gateway: a batch is published before it is in the outbox", file: "internal/producer/lanes.go", guests: "gateway",
		old: "len(l.unwritten) == 0 && l.opt.Store.Put(m) == nil {",
		new: "false {",
	},
	{
		name: "gateway: messages left in the outbox are not published", file: "internal/gateway/gateway.go", guests: "gateway",
		old: "	for _, b := range left {\n",
		new: "	for _, b := range left[:0] {\n",
	},
	{
		name: "gateway: the numbers restart with the gateway", file: "internal/gateway/gateway.go", guests: "gateway",
		old: "Incarnation: last.Incarnation, Seq: last.Seq}",
		new: "Incarnation: g.incarnation, Seq: 0*last.Seq}",
	},
	{
		name: "gateway: a resent message is not recognized after a restart", file: "internal/gateway/internal/outbox/read.go", guests: "gateway",
		old: "		b.seen = append(b.seen, l.Sessions.Add(o, b))\n",
		new: "		b.seen = append(b.seen, NewSessions(nil).Add(o, b))\n",
	},
	{
		name: "gateway: numbers continue after an outbox has lost its end", file: "internal/gateway/numbers.go", guests: "gateway",
		old: "	lane := s.lane\n	v, ok := g.job.known.Load(lane.Key)\n	if !ok {\n",
		new: "	lane := s.lane\n	v, ok := g.job.known.Load(lane.Key)\n	if !ok || lane.Incarnation != \"\" {\n",
	},
	{
		name: "alarms: a message of the log names no expected message", file: "internal/watch/publish.go", guests: "alarms",
		old: "		m.Header.Set(jetstream.ExpectedLastSeqHeader, strconv.FormatUint(b.last, 10))\n",
		new: "		_ = strconv.FormatUint(b.last, 10)\n",
	},
	{
		name: "alarms: the state is stored before its events", file: "internal/watch/judge.go", guests: "alarms",
		old: "	w.warnOfLimits()\n	if err == nil {\n",
		new: "	w.warnOfLimits()\n	if err == nil && !w.standby.following {\n		err = w.saveState(ctx)\n	}\n	if err == nil {\n",
	},
	{
		name: "alarms: the last event of the log is published twice after a start", file: "internal/watch/judge.go", guests: "alarms",
		old: "		if len(w.tail) == 0 {\n			all :=",
		new: "		if len(w.tail) < 2 && !w.standby.following {\n			all :=",
	},
	{
		name: "record: a file gets its name before it is synced", file: "internal/durable/durable.go", guests: "recorder",
		old: "	err := errors.Join(f.Chmod(mode), Sync(f), f.Close())\n	if err == nil {\n		if err = os.Rename(",
		new: "	err := errors.Join(f.Chmod(mode), f.Close())\n	if err == nil {\n		if err = os.Rename(",
	},
	{
		name: "record: the position is one message early", file: "internal/pipeline/record/record.go", guests: "recorder",
		old: "r.after = inlog.Place{Seq: m.Seq, Stored",
		new: "r.after = inlog.Place{Seq: m.Seq - 1, Stored",
	},
	{
		name: "record: the numbers of keys are forgotten at a start", file: "internal/pipeline/record/record.go", guests: "recorder",
		old: "		if part, open, err = decodeState(",
		new: "		if _, open, err = decodeState(",
	},
	{
		name: "labels: a sequence counts twice for its class", file: "internal/learn/join.go", guests: "learner",
		old: "	r.Classes[class]++\n",
		new: "	r.Classes[class] += 2\n",
	},
	{
		name: "labels: a label names a sequence that is stored later", file: "internal/learn/pass.go", guests: "learner",
		old: "named = named || l.stored >= q.Stored || !f.found[id]",
		new: "named = named || l.stored < q.Stored",
	},
	{
		name: "backfill: the lines after the position are repeated", file: "internal/replay/backfill_output.go", guests: "backfill",
		old: "	if err := o.file.Truncate(at); err != nil {\n		return fmt.Errorf(\"backfill: %w\", err)\n	}\n	if _, err := o.file.Seek(at, io.SeekStart); err != nil {",
		new: "	if _, err := o.file.Seek(0*at, io.SeekEnd); err != nil {",
	},
}
