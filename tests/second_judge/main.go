// Command second-judge judges a run directory a second time. It replays what was sent over the ranges
// that the chain pins, and compares every sink with it, as docs/reference/run-directory.md says. It
// shares no code with the pipeline or with the first judge. Exits with 0 pass, 1 fail, 2 unknown.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Answer is what is printed: the numbers of each sink, as results.json has them.
type Answer struct {
	Verdict string                    `json:"verdict"`
	Sinks   map[string]map[string]int `json:"sinks"`
	Reasons []string                  `json:"reasons"`
	Lost    int                       `json:"lost"` // records of offsets that the chain gave up
	told    map[string]int
	run     string
}

func (a *Answer) demand(holds bool, about, format string, values ...any) {
	if !holds && a.told[about] < 5 {
		a.told[about], a.Reasons = a.told[about]+1, append(a.Reasons, about+": "+fmt.Sprintf(format, values...))
	}
}

func main() {
	answer := &Answer{"pass", map[string]map[string]int{}, []string{}, 0, map[string]int{}, append(os.Args, "no run")[1]}
	judge(answer.run, answer)
	json.NewEncoder(os.Stdout).Encode(answer)
	os.Exit(map[string]int{"pass": 0, "fail": 1, "unknown": 2}[answer.Verdict])
}

// judge fills the answer; evidence that cannot be read makes it unknown, whatever was found by then.
func judge(run string, answer *Answer) {
	defer func() {
		if damage := recover(); damage != nil {
			answer.Verdict, answer.Reasons = "unknown", append(answer.Reasons, fmt.Sprint(damage))
		} else if len(answer.Reasons) > 0 {
			answer.Verdict = "fail"
		}
	}()
	manifest, sends := readObject(filepath.Join(run, "manifest.json")), readSends(filepath.Join(run, "sent.jsonl"))
	if manifest["control"] != nil {
		compare(run, "accepted", dueOfControl(sends), answer)
		return
	}
	settings, chain := as[Row](manifest["settings"]), readObject(filepath.Join(run, "observed", "chain.json"))
	due := replay(sends, chain, settings, answer)
	for _, sink := range as[[]any](settings["sinks"]) {
		compare(run, as[string](sink), due[as[string](sink)], answer)
	}
}
