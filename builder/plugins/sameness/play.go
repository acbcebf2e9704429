package sameness

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
)

// Node is a place to play a case.
type Node interface {
	// Prepare makes the pods, links and files of a case.
	Prepare(ctx context.Context, c Case) error
	// Run executes a program of BinDir. An exit code other than 0 is an answer, not an error.
	Run(ctx context.Context, plugin string, args, environ []string, stdin string) (Answer, error)
	// Observe returns what can be seen of the node and the case's pods, always in the same order.
	Observe(ctx context.Context) ([]Observation, error)
}

// Answer is what a plugin's caller gets.
type Answer struct {
	Exit           int
	Stdout, Stderr string
}

// Observation is one view of the node.
type Observation struct {
	What string
	Text string
	// Unordered is set where the order of lines says nothing.
	Unordered bool
}

// Record is what came of a call.
type Record struct {
	Call   Call
	Answer Answer
	// Seen is empty unless the call asked to look.
	Seen []Observation
}

// Play makes the calls of a case on a node that nothing else has played on.
func Play(ctx context.Context, node Node, c Case) ([]Record, error) {
	if err := node.Prepare(ctx, c); err != nil {
		return nil, fmt.Errorf("preparing %s: %w", c.Name, err)
	}

	var (
		records  []Record
		previous = make(map[string]string)
	)

	for calls := slices.Clone(c.Calls); len(calls) > 0; calls = calls[1:] {
		call := calls[0]

		record, err := play(ctx, node, call, previous)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", c.Name, call.Label(), err)
		}

		records = append(records, record)

		if call.Undo && record.Answer.Exit == 0 {
			undo := call
			undo.Command, undo.Undo, undo.What = "DEL", false, call.What+", undone"
			calls = slices.Insert(calls, 1, undo)
		}
	}

	return records, nil
}

func play(ctx context.Context, node Node, call Call, previous map[string]string) (Record, error) {
	config := call.Config

	if call.Previous {
		var err error
		if config, err = withPrevious(config, previous[call.Pod]); err != nil {
			return Record{}, err
		}
	}

	answer, err := node.Run(ctx, call.Plugin, call.Args, call.environment(), config)
	if err != nil {
		return Record{}, err
	}

	if call.Command == "ADD" && answer.Exit == 0 && json.Valid([]byte(answer.Stdout)) {
		previous[call.Pod] = answer.Stdout
	}

	record := Record{Call: call, Answer: answer}

	if call.Observe {
		record.Seen, err = node.Observe(ctx)
	}

	return record, err
}

func withPrevious(config, result string) (string, error) {
	if result == "" {
		return config, nil
	}

	var fields object
	if err := json.Unmarshal([]byte(config), &fields); err != nil {
		return "", err
	}

	return encode(with(fields, object{"prevResult": json.RawMessage(result)})), nil
}
