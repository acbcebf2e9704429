package main

import (
	"encoding/json"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cnibake/cnibake/hack/talos/boot/plan"
)

// recorder sends results to the host as they come and keeps them for the table at the end.
type recorder struct {
	port    *os.File
	results []plan.Result
}

func newRecorder(port string) (*recorder, error) {
	file, err := os.OpenFile(port, os.O_WRONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}

	return &recorder{port: file}, nil
}

// check runs a check and reports whether it passed.
func (r *recorder) check(group, name string, f func() error) bool {
	return r.describe(group, name, func() (string, error) { return "", f() })
}

// describe runs a check that has something to say when it passes, too.
func (r *recorder) describe(group, name string, f func() (string, error)) bool {
	start := time.Now()
	detail, err := f()

	result := plan.Result{
		Group: group, Name: name, Outcome: plan.Pass, Detail: detail, Millis: time.Since(start).Milliseconds(),
	}

	if err != nil {
		result.Outcome, result.Detail = plan.Fail, err.Error()
	}

	r.add(result)

	return err == nil
}

func (r *recorder) add(result plan.Result) {
	r.results = append(r.results, result)

	line, err := json.Marshal(result)
	if err != nil {
		fmt.Println(err)

		return
	}

	if _, err := r.port.Write(append(line, '\n')); err != nil {
		fmt.Println(err)
	}
}

// finish prints the table and says that nothing is missing.
func (r *recorder) finish() {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "GROUP\tCHECK\tRESULT\tMS\tDETAIL")

	for _, result := range r.results {
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\n", result.Group, result.Name, result.Outcome, result.Millis, result.Detail)
	}

	table.Flush()
	r.add(plan.Result{Group: plan.Done, Outcome: plan.Pass})
	r.port.Close()
}
