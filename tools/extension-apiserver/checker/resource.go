package main

import (
	"context"
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validate"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// sliceLimits says how much a ResourceSlice may hold: the API's own constants.
func sliceLimits(line []byte) (answer, error) {
	var q struct{ head }
	if err := question(line, &q); err != nil {
		return nil, err
	}
	return answer{
		"devices":           resourcev1.ResourceSliceMaxDevices,
		"devicesWithMore":   resourcev1.ResourceSliceMaxDevicesWithAdvancedFeatures,
		"counterSets":       resourcev1.ResourceSliceMaxCounterSets,
		"counters":          resourcev1.ResourceSliceMaxCountersPerCounterSet,
		"consumptions":      resourcev1.ResourceSliceMaxDeviceCounterConsumptionsPerDevice,
		"consumedCounters":  resourcev1.ResourceSliceMaxCountersPerDeviceCounterConsumption,
		"attributes":        resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice,
		"taints":            resourcev1.DeviceTaintsMaxLength,
		"conditions":        resourcev1.BindingConditionsMaxSize,
		"failureConditions": resourcev1.BindingFailureConditionsMaxSize,
		"driverLength":      resourcev1.DriverNameMaxLength,
		"poolLength":        resourcev1.PoolNameMaxLength,
		"attributeLength":   resourcev1.DeviceAttributeMaxValueLength,
		"keyDomainLength":   resourcev1.DeviceMaxDomainLength,
		"keyNameLength":     resourcev1.DeviceMaxIDLength,
	}, nil
}

// formats are those that the tags of the types in resource.k8s.io name (`+k8s:format=`), and two that
// these are made of.
var formats = map[string]func(context.Context, operation.Operation, *field.Path, *string, *string) field.ErrorList{
	"k8s-short-name":                    validate.ShortName[string],
	"k8s-long-name":                     validate.LongName[string],
	"k8s-long-name-caseless":            validate.LongNameCaseless[string],
	"k8s-label-key":                     validate.LabelKey[string],
	"k8s-label-value":                   validate.LabelValue[string],
	"k8s-resource-pool-name":            validate.ResourcePoolName[string],
	"k8s-resource-fully-qualified-name": validate.ResourceFullyQualifiedName[string],
	"k8s-extended-resource-name":        validate.ExtendedResourceName[string],
}

// judgeText says what keeps a text from having a format.
func judgeText(line []byte) (answer, error) {
	var q struct {
		head
		Format string `json:"format"`
		Text   string `json:"text"`
	}
	if err := question(line, &q); err != nil {
		return nil, err
	}
	format, ok := formats[q.Format]
	if !ok {
		return nil, fmt.Errorf("no format %q", q.Format)
	}
	return answer{"errors": report(format(context.Background(), operation.Operation{}, field.NewPath("text"), &q.Text, nil))}, nil
}
