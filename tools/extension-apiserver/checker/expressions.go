package main

import (
	"encoding/json"
	"fmt"
	"math"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/checker"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
)

// evaluate runs an expression in Kubernetes' environment, with all its functions. Variables have no
// declared type (dyn), unless `types` has one by name: int, uint, double, string, bytes, bool.
func evaluate(line []byte) (answer, error) {
	var q struct {
		head
		Expression string            `json:"expression"`
		Variables  map[string]any    `json:"variables"`
		Types      map[string]string `json:"types"`
		Stored     bool              `json:"stored"`
	}
	if err := question(line, &q); err != nil {
		return nil, err
	}
	var variables []cel.EnvOption
	for name := range q.Variables {
		kind := cel.DynType
		switch q.Types[name] {
		case "int":
			kind = cel.IntType
		case "double":
			kind = cel.DoubleType
		case "string":
			kind = cel.StringType
		case "bool":
			kind = cel.BoolType
		}
		variables = append(variables, cel.Variable(name, kind))
	}
	set, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Extend(
		environment.VersionedOptions{IntroducedVersion: environment.DefaultCompatibilityVersion(), EnvOptions: variables})
	if err != nil {
		return nil, err
	}
	mode := environment.NewExpressions
	if q.Stored {
		mode = environment.StoredExpressions
	}
	env, err := set.Env(mode)
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(q.Expression)
	if issues.Err() != nil {
		return answer{"refused": issues.String()}, nil
	}
	out := answer{"type": ast.OutputType().String()}
	if estimate, err := env.EstimateCost(ast, &library.CostEstimator{SizeEstimator: unknownSizes{}}); err == nil {
		out["estimate"] = []uint64{estimate.Min, estimate.Max}
	}
	program, err := env.Program(ast, cel.CostLimit(celconfig.PerCallLimit),
		cel.CostTracking(&library.CostEstimator{}), cel.EvalOptions(cel.OptTrackCost),
		cel.InterruptCheckFrequency(celconfig.CheckFrequency))
	if err != nil {
		return answer{"refused": err.Error()}, nil
	}
	activation, err := interpreter.NewActivation(q.Variables)
	if err != nil {
		return nil, err
	}
	value, details, err := program.Eval(activation)
	if details != nil && details.ActualCost() != nil {
		out["cost"] = *details.ActualCost()
	}
	if err != nil {
		out["error"] = err.Error()
		return out, nil
	}
	out["kind"] = value.Type().TypeName()
	out["value"] = plain(value)
	return out, nil
}

type unknownSizes struct{}

func (unknownSizes) EstimateSize(checker.AstNode) *checker.SizeEstimate { return nil }
func (unknownSizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

// plain is a value as JSON has it; what JSON has not is told as text.
func plain(value ref.Val) any {
	switch v := value.(type) {
	case types.Null:
		return nil
	case types.Bool, types.Int, types.String:
		return v.Value()
	case types.Uint:
		return json.Number(fmt.Sprint(v.Value()))
	case types.Double:
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Sprint(f)
		}
		return float64(v)
	case types.Bytes:
		return []byte(v)
	case *types.Optional:
		if !v.HasValue() {
			return "optional.none()"
		}
		return plain(v.GetValue())
	case traits.Mapper:
		out := map[string]any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			out[fmt.Sprint(key.Value())] = plain(v.Get(key))
		}
		return out
	case traits.Lister:
		out := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			out = append(out, plain(it.Next()))
		}
		return out
	}
	if text, ok := value.ConvertToType(types.StringType).(types.String); ok {
		return string(text)
	}
	return fmt.Sprint(value.Value())
}
