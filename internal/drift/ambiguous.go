// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// listKeys are the fields that identify the elements of some lists. The strategic merge key of these lists is not
// unique: a TCP port and a UDP port can have the same number, and an environment variable can occur twice.
var listKeys = map[string][]string{
	"ports":                     {"port", "containerPort", "protocol"},
	"env":                       {"name"},
	"hostAliases":               {"ip"},
	"topologySpreadConstraints": {"topologyKey", "whenUnsatisfiable"},
}

// mergeKeys are the strategic merge keys of these lists. The field ports has one key for Services and another key for
// containers.
var mergeKeys = map[string][]string{
	"ports":                     {"port", "containerPort"},
	"env":                       {"name"},
	"hostAliases":               {"ip"},
	"topologySpreadConstraints": {"topologyKey"},
}

// keyDefaults are the defaults that the API server sets for absent keys.
var keyDefaults = map[string]string{"protocol": "TCP"}

// podSpecs are the paths of the pod specification in the kinds of Kubernetes.
var podSpecs = map[string][]string{
	"Pod":                   {"spec"},
	"Deployment":            {"spec", "template", "spec"},
	"DaemonSet":             {"spec", "template", "spec"},
	"StatefulSet":           {"spec", "template", "spec"},
	"ReplicaSet":            {"spec", "template", "spec"},
	"ReplicationController": {"spec", "template", "spec"},
	"Job":                   {"spec", "template", "spec"},
	"CronJob":               {"spec", "jobTemplate", "spec", "template", "spec"},
	"PodTemplate":           {"template", "spec"},
}

// ambiguousList is a list in the desired object in which two elements have the same merge key, in the manifest or in
// the cluster. A strategic merge cannot distinguish them.
type ambiguousList struct {
	// path is the path of the map that contains the list, or of the map that contains the list of containers.
	path []string
	// containers is the name of the list of containers, and container is the name of the container in it. Both are empty
	// if the list does not belong to a container.
	containers, container string
	// field is the name of the list, and merged is its desired content.
	field  string
	merged []any
}

// ambiguousLists returns the ambiguous lists of an object of a built-in kind, merged with the lists in the cluster.
func ambiguousLists(kind string, desired, live map[string]any) []ambiguousList {
	if kind == "Service" {
		path := []string{"spec"}
		return findAmbiguous(nil, ambiguousList{path: path}, mapAt(desired, path...), mapAt(live, path...), "ports")
	}
	path, ok := podSpecs[kind]
	if !ok {
		return nil
	}
	desired, live = mapAt(desired, path...), mapAt(live, path...)
	found := findAmbiguous(nil, ambiguousList{path: path}, desired, live, "hostAliases", "topologySpreadConstraints")
	for _, containers := range []string{"containers", "initContainers"} {
		list, _ := desired[containers].([]any)
		for _, element := range list {
			name, _ := nameOf(element)
			desiredContainer, _ := element.(map[string]any)
			at := ambiguousList{path: path, containers: containers, container: name}
			found = findAmbiguous(found, at, desiredContainer, named(live[containers], name), "ports", "env")
		}
	}
	return found
}

// findAmbiguous appends to found the ambiguous lists among the fields of a map. The parameter at holds the path of the
// map.
func findAmbiguous(found []ambiguousList, at ambiguousList, desired, live map[string]any,
	fields ...string,
) []ambiguousList {
	for _, field := range fields {
		wantedList, _ := desired[field].([]any)
		liveList, _ := live[field].([]any)
		if len(wantedList) == 0 || len(liveList) == 0 || !repeats(wantedList, field) && !repeats(liveList, field) {
			continue
		}
		at.field, at.merged = field, mergeLists(wantedList, liveList, listKeys[field])
		found = append(found, at)
	}
	return found
}

// put writes the list into an object that was merged without the list.
func (l ambiguousList) put(merged map[string]any) {
	target := mapAt(merged, l.path...)
	if l.containers != "" {
		target = named(target[l.containers], l.container)
	}
	if target != nil {
		target[l.field] = l.merged
	}
}

// named returns the element with a name from a list, or nil.
func named(list any, name string) map[string]any {
	elements, _ := list.([]any)
	for _, element := range elements {
		if other, ok := nameOf(element); ok && other == name {
			return element.(map[string]any)
		}
	}
	return nil
}

// repeats reports whether two elements of a list have the same merge key.
func repeats(list []any, field string) bool {
	seen := map[string]struct{}{}
	for _, element := range list {
		identity := identityOf(element, mergeKeys[field])
		if _, found := seen[identity]; found {
			return true
		}
		seen[identity] = struct{}{}
	}
	return false
}

// identityOf returns the identity of an element within its list: the values of its key fields.
func identityOf(element any, keys []string) string {
	fields, _ := element.(map[string]any)
	var identity strings.Builder
	for _, key := range keys {
		value, ok := fields[key]
		if !ok {
			value = keyDefaults[key]
		}
		fmt.Fprintf(&identity, "%v\x00", value)
	}
	return identity.String()
}

// mergeLists merges the desired elements into the live elements. The n-th desired element with an identity changes the
// n-th live element with this identity. The result keeps elements that other clients added. The result has the order of
// the live elements. If a desired element is missing in the live list, the result has the desired order, followed by
// the other elements.
func mergeLists(desired, live []any, keys []string) []any {
	places := map[string][]int{}
	for i, element := range live {
		identity := identityOf(element, keys)
		places[identity] = append(places[identity], i)
	}
	merged := make([]any, len(live))
	inWantedOrder := make([]any, 0, len(desired)+len(live))
	complete := true
	for _, element := range desired {
		identity := identityOf(element, keys)
		if free := places[identity]; len(free) > 0 {
			places[identity] = free[1:]
			element = layOver(runtime.DeepCopyJSONValue(live[free[0]]), element)
			merged[free[0]] = element
		} else {
			complete = false
		}
		inWantedOrder = append(inWantedOrder, element)
	}
	for i, element := range live {
		if merged[i] == nil {
			merged[i] = element
			inWantedOrder = append(inWantedOrder, element)
		}
	}
	if complete {
		return merged
	}
	return inWantedOrder
}

// layOver returns base with the fields that over sets. It replaces lists as a whole.
func layOver(base, over any) any {
	baseMap, isMap := base.(map[string]any)
	overMap, alsoMap := over.(map[string]any)
	if !isMap || !alsoMap {
		if reflect.DeepEqual(base, over) {
			return base
		}
		return over
	}
	for key, value := range overMap {
		baseMap[key] = layOver(baseMap[key], value)
	}
	return baseMap
}

// mapAt returns a nested map, or nil.
func mapAt(value map[string]any, path ...string) map[string]any {
	for _, key := range path {
		value, _ = value[key].(map[string]any)
	}
	return value
}
