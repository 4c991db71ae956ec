// Package paper reruns the experiments of the paper (C. Gallicchio, "Euler State
// Networks: Non-dissipative Reservoir Computing", arXiv 2203.09382) on data sets of
// package offline: data sets x reservoirs x random search x draws.
//
// # Protocols
//
// paper-exact repeats the published experiments. The training part is split 67/33 again,
// stratified, exactly as scikit-learn's train_test_split with random_state 42 splits it
// (see stratify). The 200 configurations of each reservoir are the published ones,
// regenerated with NumPy's legacy generator seeded with 42 (see Configurations). On MNIST
// the published searches ended after ten hours, so the lists of ESN and R-ESN are
// different there (Settings.ListLength). Series shorter than the longest series of both
// parts get leading zeros, which pass through the network. The readout is a ridge
// classifier with alpha 1 on the raw last state, fitted to the 67 %. The first
// configuration with the best validation accuracy is redrawn ten times. Each draw is
// fitted to the 67 % and predicts the test part.
//
// best has the same search, but every series keeps its length, alpha is chosen by exact
// leave-one-out, features are divided by their deviation before the penalty, and the
// draws are fitted to the whole training part.
//
// bank has no search: reservoir.DefaultBank, drawn ten times, with alpha and kind of
// readout (ridge classifier or linear discriminant) chosen by leave-one-out on the
// training part.
//
// compare is the same for several banks, each under its name (reservoir.Bank), in one
// results file. A draw records the recipe of its bank; after a change of the recipe, the
// draws are recomputed.
//
// DeepESN (the paper's journal version) is several layers of leaky ESNs. The input of a
// layer is the state of the previous layer at the same sample; the readout reads the last
// states of all layers. All layers have the same configuration; the units are divided
// evenly, and the first layer gets the remainder. Layer l is drawn with the seed of the
// trial or draw + l*2^32.
//
// Models with full training (package internal/offline/baseline) are searched and drawn by
// the first two protocols: fitted to the 67 %, stopped when the loss over the validation
// part has not fallen for 50 epochs or after Plan.Epochs, then applied to the test part.
// paper-exact pads as above and keeps the last weights; best does not pad, and keeps the
// weights of the smallest loss. Their configurations, too, are the published ones (see
// trainables), optionally without those of a small learning rate (Settings.LeastRate). A
// search tries configurations in order until its trials have used Plan.Budget. A trial
// may use the time left by the trials that ended before its start, so n threads may use
// up to n budgets. Only the first configurations count, up to the first unfinished one; a
// search of this fixed number does not depend on a clock. If none finished, the cell
// records the reason (Cell.Missing) and the remaining models continue.
//
// No protocol uses the test part before the draws.
//
// SyntheticMemory and Memory make the data of the long-term memorization tasks (Fig. 4).
// The experiments are the same as on any other data.
//
// # Differences from the paper
//
// The output of trained models of more than two classes is a softmax; the published
// program has a sigmoid before the same loss.
//
// The published weights come from another generator. Ours are those of package reservoir;
// configuration i of a search is drawn with seed Settings.Seed + i, draw i with Seed +
// 10000 + i, draw i of a bank with Seed + i. Readouts are solved in float64; the
// published readouts were in float32.
//
// Classes without a training series cannot be learned, and count as wrong in the test
// part (Data.Unknown). Series without a label are left out. The paper's protocols have no
// rule for a missing value, and refuse it; the protocols of banks fill missing values as
// offline.Retrain does.
//
// # Time and energy
//
// Seconds are the wall clock of a trial or draw, on its single thread (of banks: on all
// threads). Energy, in Wh, is the energy of package internal/energy: the counts of the
// machine's counters during the work, divided evenly among concurrent work; in total, and
// above the power at rest, which is measured before a run's first trial. If there is a
// counter, models run in turn, so that their energy can be separated. A cell's energy is
// known if the energy of all its trials, or draws, is known; otherwise the field is
// absent.
//
// # Results file
//
// A line of JSON per result, written as soon as the result is known; each line is an
// object with one field, the kind of the line:
//
//	{"settings": Settings}   first line, once
//	{"origin": Origin}       machine, time and program; before a run's first result
//	{"data": Data}           once per data set, before its results
//	{"metering": Metering}   before the first trial of a run with energy measurement
//	{"trial": Trial}         a configuration of a search
//	{"draw": Draw}           a draw of the chosen configuration
//	{"cell": Cell}           a model on a data set, after all its draws
//
// Data has the classes of the test series and a draw its predicted classes, so that every
// accuracy can be recounted. ReadResults recounts accuracies, and compares cells with
// their trials and draws.
//
// Lines are in the order in which threads finish. Apart from the order, from origins,
// metering and fields of seconds or energy, a file does not depend on threads, engines,
// or interruptions. On other architectures than amd64 readouts may differ in their last
// bits (see package fit), and trained models in more. The number of trials within a
// budget depends on the machine. If a crash left an incomplete last line, Resume removes
// it. Cells follow from trials and draws. Of two lines about the same result, the later
// line counts: a file may be resumed with a larger Plan, and a longer search may choose
// another configuration.
//
// # Files
//
//   - run.go: runs models on data sets and stores each result
//   - jobs.go: runs jobs on all threads, the largest first
//   - protocol.go: defines the protocols and settings of the experiments
//   - banks.go: defines the training options of banks
//   - search.go: defines and draws the hyper-parameters of the paper's networks
//   - split.go: splits training data as the published program does, with NumPy's numbers
//   - problem.go: prepares a data set for the networks of the paper, and describes it
//   - data.go: describes a data set in a results file
//   - memory.go: creates the memorization tasks
//   - trial.go: computes one configuration on a network
//   - deep.go: computes networks in layers
//   - walk.go: advances layered networks sample by sample
//   - trained.go: trains and searches the compared trained networks
//   - work.go: estimates the work of a run
//   - work_trained.go: estimates the work of trainings
//   - cost.go: measures time and energy
//   - store.go: locks a results file and appends results
//   - results.go: reads a results file and checks its consistency
//   - cell.go: summarizes the trials of a model on a data set
//   - paper.go: holds the published figures of the paper
//   - table.go: prints results next to the published figures
package paper
