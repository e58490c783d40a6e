// The checker runs the libraries' own validation over what it is asked: one question per line on
// standard input, as JSON, and for each, in the same order, one answer per line on standard output.
//
//	{"id": 1, "ask": "cel", "expression": "self.n > 2", "variables": {"self": {"n": 3}}}
//	{"id": 1, "type": "bool", "value": true, "cost": 3}
//
// README.md has all questions. A question that cannot be read is answered with "broken", and so is one
// over which a library panics: the next is answered all the same.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

type answer map[string]any

type raw = json.RawMessage

// head is what each question begins with.
type head struct {
	ID  raw    `json:"id"`
	Ask string `json:"ask"`
}

// answers has a function for each kind of question; it gets the whole line.
var answers = map[string]func(line []byte) (answer, error){
	"define":   define,
	"object":   judgeObject,
	"patch":    patch,
	"apply":    apply,
	"cel":      evaluate,
	"policy":   judgePolicy,
	"admit":    admit,
	"jsonpath": findPath,
	"labels":   matchLabels,
	"fields":   matchFields,
	"yaml":     readYAML,
	"quantity": readQuantity,
	"format":   judgeText,
	"slice":    sliceLimits,
}

func reply(line []byte) (out answer) {
	var q head
	defer func() {
		if r := recover(); r != nil {
			fmt.Fprintf(os.Stderr, "%s\n%v\n%s", line, r, debug.Stack())
			out = answer{"broken": fmt.Sprint("panic: ", r)}
		}
		if q.ID != nil {
			out["id"] = q.ID
		}
	}()
	if err := json.Unmarshal(line, &q); err != nil {
		return answer{"broken": err.Error()}
	}
	ask, ok := answers[q.Ask]
	if !ok {
		return answer{"broken": fmt.Sprintf("no question %q", q.Ask)}
	}
	out, err := ask(line)
	if err != nil {
		return answer{"broken": err.Error()}
	}
	return out
}

// read decodes a question as Kubernetes reads JSON: numbers without a point are int64.
func read(line []byte, into any) error { return utiljson.Unmarshal(line, into) }

// question decodes a whole question, which must have no other fields than it has.
func question(line []byte, into any) error {
	wrong, err := kjson.UnmarshalStrict(line, into)
	if err != nil || len(wrong) == 0 {
		return err
	}
	return errors.Join(wrong...)
}

// report is a list of errors as a Status has it in its causes, and the parts it is made of.
func report(list field.ErrorList) []answer {
	out := []answer{}
	for _, err := range list {
		out = append(out, answer{
			"type": string(err.Type), "field": err.Field, "detail": err.Detail, "message": err.ErrorBody(),
		})
	}
	return out
}

func main() {
	in, out := bufio.NewReaderSize(os.Stdin, 1<<20), bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for {
		line, err := in.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			if err := encoder.Encode(reply(line)); err != nil {
				fmt.Fprintln(out, `{"broken": "the answer is no JSON"}`)
			}
		}
		// Whoever waits for the answer gets it now; questions that lie ready are answered together.
		if in.Buffered() == 0 && out.Flush() != nil || errors.Is(err, os.ErrClosed) {
			os.Exit(1)
		}
		if err != nil {
			return
		}
	}
}
