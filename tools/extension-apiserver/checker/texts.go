package main

import (
	"bytes"
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"
)

// findPath reads a JSON path as printer columns and kubectl do.
func findPath(line []byte) (answer, error) {
	var q struct {
		head
		Path   string `json:"path"`
		Object any    `json:"object"`
		Strict bool   `json:"strict"`
	}
	if err := question(line, &q); err != nil {
		return nil, err
	}
	path := jsonpath.New("path").AllowMissingKeys(!q.Strict)
	if err := path.Parse("{" + q.Path + "}"); err != nil {
		return answer{"refused": err.Error()}, nil
	}
	results, err := path.FindResults(q.Object)
	if err != nil {
		return answer{"error": err.Error()}, nil
	}
	values := []any{}
	// Of several actions, as in {.a}{.b}, columns show what the first finds.
	for _, list := range results[:min(1, len(results))] {
		for _, value := range list {
			if value.IsValid() {
				values = append(values, value.Interface())
			} else {
				values = append(values, nil)
			}
		}
	}
	out := answer{"values": values}
	var text bytes.Buffer
	if err := path.Execute(&text, q.Object); err == nil {
		out["text"] = text.String()
	}
	return out, nil
}

// matchLabels reads a selector, as text or as a LabelSelector, and says what it matches.
func matchLabels(line []byte) (answer, error) {
	var q struct {
		head
		Selector *string               `json:"selector"`
		Object   *metav1.LabelSelector `json:"object"`
		Labels   map[string]string     `json:"labels"`
	}
	if err := question(line, &q); err != nil {
		return nil, err
	}
	var selector labels.Selector
	var err error
	if q.Selector != nil {
		selector, err = labels.Parse(*q.Selector)
	} else {
		errs := metav1validation.ValidateLabelSelector(q.Object, metav1validation.LabelSelectorValidationOptions{}, field.NewPath("selector"))
		if len(errs) > 0 {
			return answer{"errors": report(errs)}, nil
		}
		selector, err = metav1.LabelSelectorAsSelector(q.Object)
	}
	if err != nil {
		return answer{"refused": err.Error()}, nil
	}
	return answer{"selector": selector.String(), "matches": selector.Matches(labels.Set(q.Labels))}, nil
}

func matchFields(line []byte) (answer, error) {
	var q struct {
		head
		Selector string            `json:"selector"`
		Fields   map[string]string `json:"fields"`
	}
	if err := question(line, &q); err != nil {
		return nil, err
	}
	selector, err := fields.ParseSelector(q.Selector)
	if err != nil {
		return answer{"refused": err.Error()}, nil
	}
	return answer{"selector": selector.String(), "matches": selector.Matches(fields.Set(q.Fields))}, nil
}

// readYAML makes JSON of YAML as the server does.
func readYAML(line []byte) (answer, error) {
	var q struct {
		head
		Text string `json:"text"`
	}
	if err := question(line, &q); err != nil {
		return nil, err
	}
	out, err := yaml.YAMLToJSON([]byte(q.Text))
	if err != nil {
		return answer{"refused": err.Error()}, nil
	}
	return answer{"json": raw(out)}, nil
}

func readQuantity(line []byte) (answer, error) {
	var q struct {
		head
		Text string `json:"text"`
	}
	if err := question(line, &q); err != nil {
		return nil, err
	}
	quantity, err := resource.ParseQuantity(q.Text)
	if err != nil {
		return answer{"refused": err.Error()}, nil
	}
	return answer{"canonical": quantity.String(), "value": fmt.Sprint(quantity.AsDec())}, nil
}
