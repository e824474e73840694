//! The expression language: each function, each error, and the bounds.

use ek_meta::{Definitions, Node, Schema};
use ek_schema::cel::{Budget, CelInput, CompileError, EvalError, Host, Program, Res, Val, Variables};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::rc::Rc;

fn eval_with(expr: &str, vars: &[(&str, &Value)]) -> Result<Value, String> {
    let p = Program::compile(expr).map_err(|e| format!("compile: {e}"))?;
    let vars: Vec<(&str, &Value)> = vars.to_vec();
    p.evaluate_json(&vars).map_err(|e| e.to_string())
}

fn eval(expr: &str) -> Result<Value, String> {
    eval_with(expr, &[])
}

#[track_caller]
fn yes(exprs: &[&str]) {
    for e in exprs {
        assert_eq!(eval(e), Ok(json!(true)), "{e}");
    }
}

#[track_caller]
fn fails(cases: &[(&str, &str)]) {
    for (e, want) in cases {
        let got = eval(e).expect_err(e);
        assert!(got.contains(want), "{e}: {got}");
    }
}

#[test]
fn operators_and_literals() {
    yes(&[
        "1 + 2 * 3 == 7",
        "7 / 2 == 3 && -7 / 2 == -3 && 7 % 4 == 3",
        "1.5 + 1.5 == 3.0",
        "1u + 2u == 3u",
        "1 == 1.0 && 1 == 1u && 2 > 1.5 && 1u < 2",
        "'a' + 'b' == 'ab' && 'a' < 'b'",
        "b'ab' == bytes('ab') && b'a' + b'b' == b'ab'",
        "[1, 2] + [3] == [1, 2, 3] && 2 in [1, 2] && !(3 in [1])",
        "{'a': 1}.a == 1 && {'a': 1}['a'] == 1 && 'a' in {'a': 1} && {1: 'x'}[1] == 'x'",
        "true ? true : 1 / 0 == 1",
        "!false && -(-1) == 1",
        "null == null && null != 1 && 1 != 'a'",
        "false && 1 / 0 == 1 || true",
        "(1 / 0 == 1 && false) == false",
        "(1 / 0 == 1 || true) == true",
        "r'\\d' == '\\\\d'",
        "'''a\"b''' == 'a\"b'",
        "[1, 2, 3][1] == 2",
    ]);
    fails(&[
        ("1 / 0", "division by zero"),
        ("1 % 0", "modulus by zero"),
        ("9223372036854775807 + 1", "overflow"),
        ("-9223372036854775808 / -1", "overflow"),
        ("1 + 'a'", "no such overload"),
        ("[1][5]", "index out of bounds: 5"),
        ("{'a': 1}.b", "no such key: b"),
        ("{'a': 1, 'a': 2}", "repeated key"),
        ("1 && true", "no such overload"),
        ("x", "no such attribute"),
        ("1 < 'a'", "no such overload"),
    ]);
}

#[test]
fn macros() {
    yes(&[
        "has({'a': 1}.a) && !has({'a': 1}.b)",
        "[1, 2].all(x, x > 0) && ![1, 2].all(x, x > 1)",
        "[1, 2].exists(x, x == 2) && ![].exists(x, true)",
        "[1, 2, 2].exists_one(x, x == 1) && ![2, 2].existsOne(x, x == 2)",
        "[1, 2].map(x, x * 2) == [2, 4] && [1, 2].map(x, x > 1, x * 2) == [4]",
        "[1, 2, 3].filter(x, x > 1) == [2, 3]",
        "{'a': 1}.all(k, k == 'a') && {'a': 1}.map(k, k) == ['a']",
        "[1, 0].exists(x, 1 / x == 1)",
        "[3, 4].all(i, v, v == i + 3) && {'a': 1}.all(k, v, k == 'a' && v == 1)",
        "['x', 'y'].exists(i, v, i == 1 && v == 'y') && [1, 2].existsOne(i, v, v == 2)",
        "[1, 2].transformList(i, v, i + v) == [1, 3] && [1, 2].transformList(i, v, v > 1, v) == [2]",
        "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2} && {'a': 1, 'b': 2}.transformMap(k, v, v > 1, v) == {'b': 2}",
        "{'a': 'x'}.transformMapEntry(k, v, {v: k}) == {'x': 'a'}",
        "cel.bind(x, 2, cel.bind(y, x + 1, x * y)) == 6",
        "['bb', 'a'].sortBy(s, s.size()) == ['a', 'bb']",
        "[[1, 2], [3]].all(l, l.all(x, x > 0))",
        "[1, 2].all(x, [x].all(x, x > 0) && x > 0)",
    ]);
    fails(&[
        ("has(1)", "invalid argument to has() macro"),
        ("[1].all(1, true)", "argument must be a simple name"),
        ("[1].all(x, 1)", "no such overload"),
        ("[1].all(x, 1 / 0 == x)", "division by zero"),
        ("1.all(x, true)", ""),
    ]);
}

#[test]
fn optionals() {
    let v = json!({"a": {"b": 1}, "l": [1]});
    for (e, want) in [
        ("v.?a.b.orValue(0)", json!(1)),
        ("v.?x.b.orValue(7)", json!(7)),
        ("v.?a.?b.hasValue()", json!(true)),
        ("v.l[?0].orValue(0) + v.l[?9].orValue(5)", json!(6)),
        ("v[?'a'].hasValue()", json!(true)),
        ("optional.of(3).value()", json!(3)),
        ("optional.none().or(optional.of(4)).value()", json!(4)),
        ("optional.ofNonZeroValue('').hasValue()", json!(false)),
        ("[?v.?x, ?v.?a.b]", json!([1])),
        ("{?'k': v.?x, 'm': 1}", json!({"m": 1})),
        ("v.?a.b.optMap(x, x + 1).value()", json!(2)),
        ("v.?a.optFlatMap(x, x.?b).value()", json!(1)),
        ("has(v.?a.b)", json!(true)),
        ("optional.of(1) == optional.of(1) && optional.none() != optional.of(1)", json!(true)),
        ("v.l.first().value() == v.l.last().value()", json!(true)),
    ] {
        assert_eq!(eval_with(e, &[("v", &v)]), Ok(want), "{e}");
    }
    fails(&[("optional.none().value()", "optional.none() dereference")]);
}

#[test]
fn conversions_and_types() {
    yes(&[
        "int('5') == 5 && int(5.9) == 5 && int(7u) == 7 && uint('3') == 3u && double('1.5') == 1.5",
        "string(1) == '1' && string(1.5) == '1.5' && string(true) == 'true' && string(b'x') == 'x'",
        "bool('true') && !bool('false')",
        "type(1) == int && type('a') == string && type([]) == list && type({}) == map && type(null) == null_type",
        "type(1.0) == double && type(1u) == uint && type(b'') == bytes && type(true) == bool && type(int) == type",
        "dyn(1) == 1",
        "size('héé') == 3 && 'abc'.size() == 3 && size([1]) == 1 && {'a': 1}.size() == 1",
        "string(duration('90s')) == '90s' && string(duration('1.5s')) == '1.5s'",
        "string(timestamp('2026-01-02T03:04:05Z')) == '2026-01-02T03:04:05Z'",
    ]);
    fails(&[
        ("int('x')", "type conversion error"),
        ("int(1e30)", "overflow"),
        ("uint(-1)", "overflow"),
        ("bool('maybe')", "type conversion error"),
    ]);
}

#[test]
fn time() {
    yes(&[
        "duration('1h') == duration('60m') && duration('1h') > duration('1m')",
        "duration('1h') + duration('1m') == duration('61m') && duration('1h30m').getMinutes() == 90",
        "duration('1h30m').getHours() == 1 && duration('90s').getSeconds() == 90",
        "timestamp('2026-01-01T00:00:00Z') + duration('24h') == timestamp('2026-01-02T00:00:00Z')",
        "timestamp('2026-01-02T00:00:00Z') - timestamp('2026-01-01T00:00:00Z') == duration('24h')",
        "timestamp('2026-03-04T05:06:07.089Z').getFullYear() == 2026",
        "timestamp('2026-03-04T05:06:07.089Z').getMonth() == 2",
        "timestamp('2026-03-04T05:06:07.089Z').getDate() == 4",
        "timestamp('2026-03-04T05:06:07.089Z').getDayOfMonth() == 3",
        "timestamp('2026-03-04T05:06:07.089Z').getDayOfWeek() == 3",
        "timestamp('2026-03-04T05:06:07.089Z').getDayOfYear() == 62",
        "timestamp('2026-03-04T05:06:07.089Z').getHours('+02:00') == 7",
        "timestamp('2026-03-04T05:06:07.089Z').getMilliseconds() == 89",
        "int(timestamp('1970-01-01T00:01:00Z')) == 60",
    ]);
    fails(&[("duration('x')", "type conversion error"), ("timestamp('x')", "type conversion error")]);
}

#[test]
fn strings() {
    yes(&[
        "'hello'.contains('ell') && 'hello'.startsWith('he') && 'hello'.endsWith('lo')",
        "'abc'.charAt(1) == 'b' && 'abc'.charAt(3) == ''",
        "'héllo'.indexOf('l') == 2 && 'hello'.indexOf('l', 3) == 3 && 'a'.indexOf('z') == -1",
        "'hello'.lastIndexOf('l') == 3 && 'hello'.lastIndexOf('l', 2) == 2",
        "['a', 'b'].join('-') == 'a-b' && ['a', 'b'].join() == 'ab'",
        "'ABC'.lowerAscii() == 'abc' && 'abc'.upperAscii() == 'ABC'",
        "'aaa'.replace('a', 'b') == 'bbb' && 'aaa'.replace('a', 'b', 2) == 'bba'",
        "'a,b,c'.split(',') == ['a', 'b', 'c'] && 'a,b,c'.split(',', 2) == ['a', 'b,c'] && 'abc'.split('') == ['a', 'b', 'c']",
        "'hello'.substring(1) == 'ello' && 'hello'.substring(1, 3) == 'el'",
        "'  x '.trim() == 'x'",
        "'abc'.reverse() == 'cba' && [1, 2].reverse() == [2, 1]",
        "strings.quote('a\"b\\n') == '\"a\\\\\"b\\\\n\"'",
        "'%s is %d and %.2f %b %x %X %o %e'.format(['x', 5, 1.234, 5, 255, 255, 8, 1234.5]) == 'x is 5 and 1.23 101 ff FF 10 1.234500e+03'",
        "'%s %s 100%%'.format([[1, 'a'], {'k': true}]) == '[1, a] {k: true} 100%'",
        "'abc123'.matches('^[a-z]+[0-9]+$') && matches('a', 'a')",
        "'abc123def45'.find('[0-9]+') == '123' && 'abc'.find('[0-9]') == ''",
        "'a1b22'.findAll('[0-9]+') == ['1', '22'] && 'a1b22'.findAll('[0-9]+', 1) == ['1']",
        "base64.encode(b'hi') == 'aGk=' && base64.decode('aGk=') == b'hi' && base64.decode('aGk') == b'hi'",
    ]);
    fails(&[
        ("'a'.charAt(5)", "index out of range: 5"),
        ("'abc'.substring(2, 1)", "invalid substring range"),
        ("'%d'.format(['x'])", "%d clause cannot be used on string"),
        ("'%s'.format([])", "index 0 out of range"),
        ("'a'.matches('(')", "error parsing regexp"),
    ]);
}

#[test]
fn lists_and_sets() {
    yes(&[
        "[1, 2, 2].isSorted() && ![2, 1].isSorted() && ['a', 'b'].isSorted()",
        "[1, 2].sum() == 3 && [1.5, 1.5].sum() == 3.0 && [duration('1s'), duration('2s')].sum() == duration('3s')",
        "[3, 1].min() == 1 && [3, 1].max() == 3",
        "[1, 2, 1].indexOf(1) == 0 && [1, 2, 1].lastIndexOf(1) == 2 && [1].indexOf(9) == -1",
        "[1, 2, 1].distinct() == [1, 2]",
        "[[1], [2, [3]]].flatten() == [1, 2, [3]] && [[1], [2, [3]]].flatten(2) == [1, 2, 3]",
        "[1, 2, 3].slice(1, 3) == [2, 3] && [3, 1, 2].sort() == [1, 2, 3] && lists.range(3) == [0, 1, 2]",
        "sets.contains([1, 2], [2]) && !sets.contains([1], [2])",
        "sets.equivalent([1, 2], [2, 1, 1]) && sets.intersects([1, 2], [2, 3]) && !sets.intersects([1], [2])",
        "math.greatest(1, 2.5, 2) == 2.5 && math.least([3, 1]) == 1 && math.abs(-3) == 3 && math.ceil(1.2) == 2.0",
    ]);
    fails(&[
        ("[].min()", "min called on empty list"),
        ("[1].slice(0, 2)", "list is length 1"),
        ("[1, 'a'].sort()", "no such overload"),
    ]);
}

#[test]
fn network_and_urls() {
    yes(&[
        "isIP('10.0.0.1') && isIP('::1') && !isIP('10.0.0.01') && !isIP('::ffff:1.2.3.4') && !isIP('fe80::1%eth0')",
        "ip('10.0.0.1').family() == 4 && ip('::1').family() == 6 && ip('::1') == ip('0:0:0:0:0:0:0:1')",
        "ip('0.0.0.0').isUnspecified() && ip('127.0.0.1').isLoopback() && ip('224.0.0.1').isLinkLocalMulticast()",
        "ip('169.254.0.1').isLinkLocalUnicast() && ip('8.8.8.8').isGlobalUnicast() && !ip('127.0.0.1').isGlobalUnicast()",
        "ip.isCanonical('::1') && !ip.isCanonical('0:0::1') && string(ip('0:0::1')) == '::1'",
        "isCIDR('10.0.0.0/8') && !isCIDR('10.0.0.0/33') && !isCIDR('10.0.0.0') && !isCIDR('10.0.0.0/08')",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && !cidr('10.0.0.0/8').containsIP(ip('11.0.0.1'))",
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !cidr('10.1.0.0/16').containsCIDR(cidr('10.0.0.0/8'))",
        "cidr('0.0.0.0/0').containsIP('1.2.3.4') && cidr('::/0').containsIP('::1') && !cidr('::/0').containsIP('1.2.3.4')",
        "cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('10.1.2.3/8').ip() == ip('10.1.2.3')",
        "cidr('10.0.0.0/8').prefixLength() == 8 && string(cidr('10.0.0.0/8')) == '10.0.0.0/8'",
        "isURL('https://example.com:80/a') && isURL('/a/b') && !isURL('a b') && !isURL('../x')",
        "url('https://example.com:8080/a%20b?k=1&k=2&m=').getScheme() == 'https'",
        "url('https://example.com:8080/a').getHost() == 'example.com:8080'",
        "url('https://example.com:8080/a').getHostname() == 'example.com'",
        "url('https://[::1]:80/').getHostname() == '::1' && url('https://[::1]:80/').getPort() == '80'",
        "url('https://example.com/a%20b').getEscapedPath() == '/a%20b' && url('https://example.com').getPort() == ''",
        "url('https://example.com/?k=1&k=2').getQuery() == {'k': ['1', '2']}",
        "url('https://example.com').getEscapedPath() == ''",
        "url('/path').getHost() == '' && url('/path').getEscapedPath() == '/path'",
    ]);
    fails(&[("ip('x')", "parse error"), ("cidr('x')", "parse error"), ("url('a b')", "URL parse error")]);
}

#[test]
fn quantities_versions_formats() {
    yes(&[
        "isQuantity('1.5Gi') && !isQuantity('1x')",
        "quantity('1Gi').isGreaterThan(quantity('1G')) && quantity('1').isLessThan(quantity('2'))",
        "quantity('1000m').compareTo(quantity('1')) == 0 && quantity('1000m') == quantity('1')",
        "quantity('1').add(quantity('500m')) == quantity('1.5') && quantity('2').sub(1) == quantity('1')",
        "quantity('-1').sign() == -1 && quantity('5k').asInteger() == 5000 && quantity('500m').asApproximateFloat() == 0.5",
        "quantity('1').isInteger() && !quantity('500m').isInteger()",
        "isSemver('1.2.3-rc.1+b') && !isSemver('1.2') && !isSemver('v1.2.3') && isSemver('v1.2', true)",
        "semver('1.2.3').major() == 1 && semver('1.2.3').minor() == 2 && semver('1.2.3').patch() == 3",
        "semver('1.2.3').isGreaterThan(semver('1.2.3-rc.1')) && semver('1.2.3-rc.2').isLessThan(semver('1.2.3-rc.10'))",
        "semver('1.2.3').compareTo(semver('1.2.3+x')) == 0 && semver('1.10.0') > semver('1.9.0')",
        "!format.dns1123Label().validate('abc').hasValue() && format.dns1123Label().validate('A').hasValue()",
        "format.named('uuid').hasValue() && !format.named('nope').hasValue()",
        "format.qualifiedName().validate('a/b/c').value().size() > 0 && !format.labelValue().validate('x').hasValue()",
        "!format.dns1123LabelPrefix().validate('abc-').hasValue() && format.uri().validate('x y').hasValue()",
        "!format.date().validate('2026-01-01').hasValue() && format.datetime().validate('x').hasValue() && format.byte().validate('!').hasValue()",
    ]);
    fails(&[("quantity('x')", "quantities must match"), ("quantity('1.5').asInteger()", "cannot convert")]);
}

#[test]
fn compile_errors_are_located() {
    let e = Program::compile_with("self.x + nope", Some(&["self"])).unwrap_err().to_string();
    assert_eq!(
        e,
        "ERROR: <input>:1:10: undeclared reference to 'nope' (in container '')\n | self.x + nope\n | .........^"
    );
    let e = Program::compile("foo(1)").unwrap_err().to_string();
    assert!(e.contains("undeclared reference to 'foo'"), "{e}");
    let e = Program::compile("size(1, 2, 3)").unwrap_err().to_string();
    assert!(e.contains("found no matching overload for 'size' applied to '(int, int, int)'"), "{e}");
    assert!(Program::compile("1 +").is_err());
    assert!(Program::compile("").is_err());
}

#[test]
fn typed_values_follow_their_schema() {
    let schema = json!({"type": "object", "properties": {
        "n": {"type": "number"}, "i": {"type": "integer"},
        "t": {"type": "string", "format": "date-time"}, "d": {"type": "string", "format": "duration"},
        "b": {"type": "string", "format": "byte"}, "ios": {"x-kubernetes-int-or-string": true},
        "s": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "m": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
              "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}}},
        "a-b": {"type": "integer"}, "c.d": {"type": "integer"}, "e/f": {"type": "integer"},
        "x__y": {"type": "integer"}, "namespace": {"type": "string"}
    }});
    let schema = Schema::parse(&schema, &|_| None);
    let node = Node::new(&schema, Definitions::empty());
    let new = json!({
        "n": 1, "i": 2, "t": "2026-01-01T00:00:00Z", "d": "1h", "b": "aGk=", "ios": 3,
        "s": ["a", "b"], "m": [{"k": "x", "v": 1}, {"k": "y", "v": 2}],
        "a-b": 1, "c.d": 2, "e/f": 3, "x__y": 4, "namespace": "ns"});
    let old = json!({"s": ["b", "a"], "m": [{"k": "y", "v": 2}, {"k": "x", "v": 1}]});
    for e in [
        "type(self.n) == double && type(self.i) == int && self.n / 2.0 == 0.5",
        "self.t == timestamp('2026-01-01T00:00:00Z') && self.d == duration('60m') && self.b == b'hi'",
        "type(self.ios) == int",
        "self.s == oldSelf.s && self.m == oldSelf.m && self.s != ['a', 'c']",
        "self.s + ['b', 'c'] == ['a', 'b', 'c']",
        "(self.m + [{'k': 'x', 'v': 9}]).exists(e, e.k == 'x' && e.v == 9) && (self.m + [{'k': 'x', 'v': 9}]).size() == 2",
        "self.a__dash__b == 1 && self.c__dot__d == 2 && self.e__slash__f == 3 && self.x__underscores__y == 4",
        "self.__namespace__ == 'ns' && has(self.__namespace__) && self.`a-b` == 1",
    ] {
        let p = Program::compile(e).unwrap();
        let vars = [("self", CelInput::Typed(&new, node)), ("oldSelf", CelInput::Typed(&old, node))];
        assert_eq!(p.evaluate_bool(&vars), Ok(true), "{e}");
    }
    let p = Program::compile("self.i == self.nope || self.m.all(e, e.k == e.z) || has(self.i.q)").unwrap();
    let found: Vec<String> = p.undefined_fields(&[("self", node)]).into_iter().map(|u| u.field).collect();
    assert_eq!(found, ["nope", "z"]);
}

#[test]
fn work_is_bounded() {
    let big = json!((0..2000).collect::<Vec<_>>());
    let p = Program::compile("l.all(x, l.all(y, l.all(z, x + y + z >= 0)))").unwrap();
    assert_eq!(p.evaluate_json(&[("l", &big)]), Err(EvalError::Budget));
    let long = json!("x".repeat(100_000));
    let p = Program::compile("l.map(x, s.replace('x', s)).size() > 0").unwrap();
    assert_eq!(p.evaluate_json(&[("l", &big), ("s", &long)]), Err(EvalError::Budget));
    // Sharing makes small expressions denote enormous values; none of the ways to write one out is free.
    let doubled = |body: &str| {
        let mut e = body.replace('$', "a25");
        for i in (1..=25).rev() {
            let p = i - 1;
            e = format!("cel.bind(a{i}, [a{p}, a{p}, a{p}, a{p}], {e})");
        }
        eval(&format!("cel.bind(a0, 1, {e})"))
    };
    for body in ["$", "'%s'.format([$])", "{}[$]", "$ == $", "$.flatten(99)"] {
        let e = doubled(body).expect_err(body);
        assert!(e.contains("cost limit exceeded"), "{body}: {e}");
    }
    let p = Program::compile("lists.range(9223372036854775807).size() > 0").unwrap();
    assert_eq!(p.evaluate_json(&[]), Err(EvalError::Budget));
}

#[test]
fn hostile_shapes_are_errors() {
    for s in [
        "(".repeat(10_000),
        format!("{}1{}", "(".repeat(10_000), ")".repeat(10_000)),
        format!("{}1{}", "[".repeat(500), "]".repeat(500)),
        "1".to_owned() + &"+1".repeat(5_000),
        "a".to_owned() + &".a".repeat(5_000),
        "!".repeat(10_000) + "true",
        "-".repeat(10_000) + "1",
        "true?1:".repeat(2_000) + "1",
        "x".repeat(100_000),
        "'".to_owned() + &"(".repeat(5_000),
        "a in ".repeat(3_000) + "a",
        "a==".repeat(3_000) + "a",
    ] {
        assert!(Program::compile(&s).is_err(), "{}", &s[..20.min(s.len())]);
    }
    // Within the limits, on a small stack.
    let deep = format!("{}1{}", "(".repeat(50), ")".repeat(50));
    let chain = "1".to_owned() + &"+1".repeat(240);
    let wide = "true".to_owned() + &" && true".repeat(1_500);
    std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(move || {
            assert_eq!(eval(&deep), Ok(json!(1)));
            assert_eq!(eval(&chain), Ok(json!(241)));
            assert_eq!(eval(&wide), Ok(json!(true)));
        })
        .unwrap()
        .join()
        .unwrap();
    assert!(matches!(Program::compile(&"(".repeat(100)), Err(CompileError::TooDeep { .. })));
}

/// Shapes of rules that published CRDs use.
#[test]
fn rules_in_the_wild_compile() {
    for rule in [
        "self == oldSelf",
        "!has(oldSelf.x) || has(self.x)",
        "has(self.a) ? !has(self.b) : true",
        "[has(self.a), has(self.b), has(self.c)].filter(x, x == true).size() <= 1",
        "self.all(l1, self.exists_one(l2, l1.port == l2.port && l1.protocol == l2.protocol && (has(l1.hostname) && has(l2.hostname) ? l1.hostname == l2.hostname : !has(l1.hostname) && !has(l2.hostname))))",
        "self.?platform.?aws.?region.orValue('') == oldSelf.?platform.?aws.?region.orValue('')",
        "type(self) == string ? self.matches('^[0-9]+%$') : self >= 0",
        "isURL(self) && url(self).getScheme() == 'https' && url(self).getHostname() != ''",
        "self.all(n, isCIDR(n) && cidr(n).ip().family() == 4 && cidr(n).prefixLength() <= 24)",
        "self.split('/').size() == 2 && self.split('/')[0].lowerAscii() == self.split('/')[0]",
        "self.find('[0-9]+') == '' || int(self.find('[0-9]+')) < 10",
        "duration(self) >= duration('1s') && quantity('1Gi').isGreaterThan(quantity('1Mi'))",
        "'x' in self && self['x'] in ['a', 'b'] || !('x' in self)",
        "self.exists(c, c.type == 'Ready' && c.status == \"True\")",
        "dyn(self) == 'a' || self.size() < 3",
        "self.filter(t1, self.filter(t2, t1.tokenName == t2.tokenName).size() > 1).size() == 0",
        "(has(self.x) && self.x == 'A') == has(self.y)",
        "!(self.kind in ['Secret', 'ConfigMap']) || self.name.size() <= 253",
    ] {
        if let Err(e) = Program::compile_with(rule, Some(&["self", "oldSelf"])) {
            assert_eq!(e.to_string(), "", "{rule}");
        }
    }
}

#[derive(Clone)]
struct Authorizer(Vec<String>);

impl<'a> Host<'a> for Authorizer {
    fn type_name(&self) -> &str {
        "kubernetes.authorization.Authorizer"
    }
    fn field(&self, _: &str, _: &Budget) -> Option<Res<Val<'a>>> {
        None
    }
    fn call(&self, name: &str, args: &[Val<'a>], _: &Budget) -> Option<Res<Val<'a>>> {
        match name {
            "allowed" => Some(Ok(Val::Bool(self.0.join("/") == "group:apps/resource:deployments/check:get"))),
            _ => {
                let mut next = self.clone();
                next.0.push(format!("{name}:{}", args.first().map(ToString::to_string).unwrap_or_default()));
                Some(Ok(Val::Host(Rc::new(next))))
            }
        }
    }
}

#[test]
fn hosts_and_lazy_variables() {
    let p =
        Program::compile("authorizer.group('apps').resource('deployments').check('get').allowed()").unwrap();
    assert_eq!(p.evaluate_bool(&[("authorizer", CelInput::Host(Rc::new(Authorizer(vec![]))))]), Ok(true));

    let programs = vec![
        ("two".to_owned(), Program::compile("object.one + 1").unwrap()),
        ("four".to_owned(), Program::compile("variables.two * variables.two").unwrap()),
        ("bad".to_owned(), Program::compile("1 / 0").unwrap()),
        ("loop".to_owned(), Program::compile("variables.loop").unwrap()),
    ];
    let object = json!({"one": 1});
    let [good, bad, cycle] =
        ["variables.four == 4 && variables.two == 2", "variables.bad == 1", "variables.loop == 1"]
            .map(|e| Program::compile(e).unwrap());
    let vars = Variables::new(&programs, vec![("object", Val::from_json(&object, None))]);
    let host = || CelInput::Host(Rc::new(vars.clone()));
    assert_eq!(good.evaluate_bool(&[("variables", host())]), Ok(true));
    assert_eq!(bad.evaluate_bool(&[("variables", host())]), Err(EvalError::DivisionByZero));
    assert!(cycle.evaluate_bool(&[("variables", host())]).is_err());
}

#[test]
fn claims_map_to_json() {
    let claims = json!({"sub": "u1", "groups": ["a", "b"], "email_verified": true});
    assert_eq!(
        eval_with("claims.groups.map(g, 'oidc:' + g)", &[("claims", &claims)]),
        Ok(json!(["oidc:a", "oidc:b"]))
    );
    assert_eq!(eval_with("claims.?name.orValue(claims.sub)", &[("claims", &claims)]), Ok(json!("u1")));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn arbitrary_text_never_panics(s in any::<String>()) {
        let _ = eval(&s);
    }

    #[test]
    fn arbitrary_tokens_never_panic(tokens in prop::collection::vec(prop::sample::select(vec![
        "self", ".a", ".?b", "[0]", "[?1]", "(", ")", "[", "]", "{", "}", "'x'", "\"", "1", "1.5", "2u", "b'y'",
        " + ", " - ", " * ", " / ", " % ", " && ", " || ", "!", " == ", " < ", " in ", " ? ", " : ", ",", ".all(x, ",
        ".map(x, ", ".filter(x, ", "has(", "size(", ".split('')", ".matches('a')", "cel.bind(x, ", "duration('1h')",
        "timestamp('2026-01-01T00:00:00Z')", "quantity('1')", "ip('::1')", "9223372036854775807", "x", "`", "\\", "\n",
        ".substring(", ".format(", "null", "true", "optional.none()", ".orValue(", "// c", "r'", ".sort()", ".flatten()",
    ]), 0..24)) {
        let v = json!({"a": [1, {"b": "c"}], "b": null});
        let _ = eval_with(&tokens.concat(), &[("self", &v)]);
    }
}
