package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	rbacinformers "k8s.io/client-go/informers/rbac/v1"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
)

// rbac decides by the roles and bindings of the server, as Kubernetes' RBAC authorizer does, whose
// package is not among the libraries.
type rbac struct {
	roles               rbaclisters.RoleLister
	bindings            rbaclisters.RoleBindingLister
	clusterRoles        rbaclisters.ClusterRoleLister
	clusterRoleBindings rbaclisters.ClusterRoleBindingLister
}

func newRBAC(shared rbacinformers.Interface) *rbac {
	return &rbac{
		shared.Roles().Lister(), shared.RoleBindings().Lister(),
		shared.ClusterRoles().Lister(), shared.ClusterRoleBindings().Lister(),
	}
}

// rules are those of all roles that are bound to a user, in a namespace ("" for those of the cluster).
func (r *rbac) rules(who user.Info, namespace string) []rbacv1.PolicyRule {
	var found []rbacv1.PolicyRule
	clusterRole := func(name string) []rbacv1.PolicyRule {
		role, err := r.clusterRoles.Get(name)
		if err != nil {
			return nil
		}
		return role.Rules
	}
	everywhere, _ := r.clusterRoleBindings.List(labels.Everything())
	for _, binding := range everywhere {
		if slices.ContainsFunc(binding.Subjects, func(s rbacv1.Subject) bool { return means(s, who, "") }) {
			found = append(found, clusterRole(binding.RoleRef.Name)...)
		}
	}
	if namespace == "" {
		return found
	}
	here, _ := r.bindings.RoleBindings(namespace).List(labels.Everything())
	for _, binding := range here {
		if !slices.ContainsFunc(binding.Subjects, func(s rbacv1.Subject) bool { return means(s, who, namespace) }) {
			continue
		}
		if binding.RoleRef.Kind == "ClusterRole" {
			found = append(found, clusterRole(binding.RoleRef.Name)...)
		} else if role, err := r.roles.Roles(namespace).Get(binding.RoleRef.Name); err == nil {
			found = append(found, role.Rules...)
		}
	}
	return found
}

func means(subject rbacv1.Subject, who user.Info, namespace string) bool {
	switch subject.Kind {
	case rbacv1.UserKind:
		return subject.Name == who.GetName()
	case rbacv1.GroupKind:
		return slices.Contains(who.GetGroups(), subject.Name)
	case rbacv1.ServiceAccountKind:
		if subject.Namespace != "" {
			namespace = subject.Namespace
		}
		return namespace != "" && serviceaccount.MatchesUsername(namespace, subject.Name, who.GetName())
	}
	return false
}

func has(list []string, all string, wanted string) bool {
	return slices.Contains(list, all) || slices.Contains(list, wanted)
}

func allows(rule rbacv1.PolicyRule, a authorizer.Attributes) bool {
	if !has(rule.Verbs, rbacv1.VerbAll, a.GetVerb()) {
		return false
	}
	if !a.IsResourceRequest() {
		return slices.ContainsFunc(rule.NonResourceURLs, func(url string) bool {
			prefix, any := strings.CutSuffix(url, "*")
			return url == a.GetPath() || any && strings.HasPrefix(a.GetPath(), prefix)
		})
	}
	resource := a.GetResource()
	if sub := a.GetSubresource(); sub != "" {
		if slices.Contains(rule.Resources, "*/"+sub) {
			resource = "*/" + sub
		} else {
			resource += "/" + sub
		}
	}
	return has(rule.APIGroups, rbacv1.APIGroupAll, a.GetAPIGroup()) &&
		has(rule.Resources, rbacv1.ResourceAll, resource) &&
		(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, a.GetName()))
}

func (r *rbac) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	namespace := ""
	if a.IsResourceRequest() {
		namespace = a.GetNamespace()
	}
	for _, rule := range r.rules(a.GetUser(), namespace) {
		if allows(rule, a) {
			return authorizer.DecisionAllow, "RBAC", nil
		}
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// RulesFor is what `kubectl auth can-i --list` shows.
func (r *rbac) RulesFor(_ context.Context, who user.Info, namespace string) (
	[]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error,
) {
	if namespace == "" {
		return nil, nil, false, fmt.Errorf("no namespace")
	}
	var resources []authorizer.ResourceRuleInfo
	var paths []authorizer.NonResourceRuleInfo
	for _, rule := range r.rules(who, namespace) {
		if len(rule.Resources) > 0 {
			resources = append(resources, &authorizer.DefaultResourceRuleInfo{
				Verbs: rule.Verbs, APIGroups: rule.APIGroups,
				Resources: rule.Resources, ResourceNames: rule.ResourceNames,
			})
		}
		if len(rule.NonResourceURLs) > 0 {
			paths = append(paths, &authorizer.DefaultNonResourceRuleInfo{
				Verbs: rule.Verbs, NonResourceURLs: rule.NonResourceURLs,
			})
		}
	}
	return resources, paths, false, nil
}
