//! Instructions by grammar: each rule is a family of instructions with its types, modifiers and
//! operands.
//!
//! In a rule, `{a|b}` is one of its parts, `<` and `>` are braces, and `$` with a letter is an
//! operand:
//!
//! | operand | |
//! |---|---|
//! | `$h` `$r` `$d` | a register of 16, 32 or 64 bits |
//! | `$R` `$D` | such a register of 32 or 64 bits, or a number |
//! | `$p` `$q` | a predicate; a predicate or its opposite |
//! | `$k` `$n` | a number below 64; any number |
//! | `$m` | a mask of lanes |
//! | `$g` `$s` `$l` | an address in the buffer, in shared memory, in local memory; mostly within bounds |
//! | `$a` | any address |

use super::random::Random;

const RULES: &[&str] = &[
    "{add|sub|min|max}.{s32|u32} $r, $r, $R;",
    "{add|sub|min|max}.{s64|u64} $d, $d, $D;",
    "{add|sub|min|max}.{s16|u16} $h, $h, $h;",
    "{add|sub|mul}{|.rn|.rz|.rp|.rm}{|.ftz}{|.sat}.f32 $r, $r, $R;",
    "{add|sub|mul|min|max}{|.rn}.f64 $d, $d, $D;",
    "{min|max}{|.ftz}{|.NaN}.f32 $r, $r, $r;",
    "mul.{lo|hi}.{s32|u32} $r, $r, $R;",
    "mul.wide.{s32|u32} $d, $r, $R;",
    "mad.{lo|hi}.{s32|u32} $r, $r, $R, $r;",
    "mad.wide.{s32|u32} $d, $r, $R, $d;",
    "fma.{rn|rz}{|.ftz}{|.sat}.f32 $r, $r, $r, $R;",
    "fma.rn.f64 $d, $d, $d, $d;",
    "{div|rem}.{s32|u32} $r, $r, $R;",
    "{div|rem}.{s64|u64} $d, $d, $D;",
    "div.{rn|approx|full}{|.ftz}.f32 $r, $r, $r;",
    "{add.cc|addc|addc.cc|sub.cc|subc}.u32 $r, $r, $R;",
    "{mad.lo.cc|madc.hi|madc.lo.cc}.u32 $r, $r, $r, $R;",
    "{neg|abs}.{s32|f32} $r, $r;",
    "{and|or|xor}.b32 $r, $r, $R;",
    "{and|or|xor}.b64 $d, $d, $D;",
    "{and|or|xor}.pred $p, $p, $p;",
    "not.{b32 $r, $r|b64 $d, $d|pred $p, $p};",
    "cnot.b32 $r, $r;",
    "{shl.b32|shr.u32|shr.s32} $r, $r, $R;",
    "{shl.b64|shr.u64|shr.s64} $d, $d, $R;",
    "shf.{l|r}.{wrap|clamp}.b32 $r, $r, $r, $R;",
    "{popc|clz|brev}.b32 $r, $r;",
    "{popc|clz}.b64 $r, $d;",
    "bfind{|.shiftamt}.{u32|s32} $r, $r;",
    "bfe.{u32|s32} $r, $r, $R, $R;",
    "bfi.b32 $r, $r, $r, $R, $R;",
    "prmt.b32{|.f4e|.b4e|.rc8|.ecl|.ecr|.rc16} $r, $r, $r, $R;",
    "lop3.b32 $r, $r, $r, $r, $n;",
    "{bmsk.clamp.b32|szext.wrap.u32} $r, $r, $R;",
    "fns.b32 $r, $r, $R, $R;",
    "{sad.u32|mul24.lo.u32|dp4a.u32.s32|vabsdiff4.u32.u32.u32.add} $r, $r, $r{|, $r};",
    "{sqrt|rcp}.{rn|approx}{|.ftz}.f32 $r, $r;",
    "{rsqrt|ex2|lg2|sin|cos|tanh}.approx{|.ftz}.f32 $r, $r;",
    "testp.{finite|infinite|number|notanumber|normal|subnormal}.f32 $p, $r;",
    "copysign.f32 $r, $r, $r;",
    "mov.{b32|u32|f32} $r, $R;",
    "mov.b64 $d, {$D|<$r, $r>|<$h, $h, $h, $h>};",
    "mov.b64 <$r, {$r|_}>, $d;",
    "mov.b32 <$h, $h>, $r;",
    "mov.u32 $r, %{tid.x|ntid.x|ctaid.x|nctaid.x|laneid|warpid|lanemask_lt|smid|clock};",
    "cvt.{rn|rz}.{f32.s32|f32.u32} $r, $r;",
    "cvt.{rni|rzi|rmi|rpi}{|.sat}.{s32|u32}.f32 $r, $r;",
    "cvt.{u64.u32|s64.s32|f64.f32} $d, $r;",
    "cvt.{u32.u64|s32.s64|rn.f32.f64} $r, $d;",
    "cvt{|.sat}.{u16|s16|u8|s8}.{u32|s32} $h, $r;",
    "cvt.rn{|.sat}.f16.f32 $h, $r;",
    "cvt.f32.f16 $r, $h;",
    "cvt.rn.{f16x2|bf16x2}.f32 $r, $r, $r;",
    "{add|sub|mul}{|.rn}{|.ftz}{|.sat}.f16 $h, $h, $h;",
    "{add|sub|mul|min|max}.{f16x2|bf16x2} $r, $r, $r;",
    "fma.rn{|.relu}.{f16|bf16} $h, $h, $h, $h;",
    "{min|max}{|.NaN}.{f16|bf16} $h, $h, $h;",
    "{neg|abs}.{f16|bf16} $h, $h;",
    "{ex2|tanh}.approx.f16{ $h, $h|x2 $r, $r};",
    "setp.{lt|geu}.{f16|bf16} $p, $h, $h;",
    "setp.{lt|nan}.{f16x2|bf16x2} $p|$p, $r, $r;",
    "set.{lt.f16x2.f16x2|ne.u32.bf16x2} $r, $r, $r;",
    "cvt.{rna.tf32.f32|rn.relu.f16x2.f32} $r, $r{|, $r};",
    "selp.b32 $r, $r, $R, $p;",
    "slct.u32.{s32|f32} $r, $r, $r, $r;",
    "setp.{lt|le|gt|ge|eq|ne}.{s32|u32} $p, $r, $R;",
    "setp.{lt|eq|ltu|neu|num|nan}{|.ftz}.f32 $p, $r, $r;",
    "setp.{lt|eq}.{and|or|xor}.u32 $p|$p, $r, $R, $q;",
    "setp.{lt|hi|ne}.u64 $p, $d, $D;",
    "set.{lt|ge}.u32.{s32|f32} $r, $r, $r;",
    "isspacep.{global|shared|local} $p, $d;",
    "cvta{|.to}.{global|shared|local}.u64 $d, $d;",
    "ld{|.relaxed.gpu|.acquire.gpu|.volatile}.global{|.ca|.nc}.{u32|f32|b32|s8|u16} $r, [$g];",
    "ld.global.v{2|4}.{u32|f32} <$r, $r, $r, $r>, [$g];",
    "ld.global.v2.u64 <$d, $d>, [$g];",
    "st{|.relaxed.gpu|.release.gpu|.volatile}.global.{u32|b8|u16} [$g], $r;",
    "st.global.v{2|4}.f32 [$g], <$r, $r, $r, $r>;",
    "ld{|.volatile}.shared.{u32|u8|s16} $r, [$s];",
    "ld.shared.v{2|4}.u32 <$r, $r{|, $r, $r}>, [$s];",
    "st{|.volatile}.shared.{u32|u8|u16} [$s], $r;",
    "st.shared.v2.u64 [$s], <$d, $d>;",
    "{ld.local.u32 $r, [$l]|st.local.u32 [$l], $r};",
    "{ld.u32 $r, [$a]|st.u32 [$a], $r};",
    "ld.param.u32 $r, [n];",
    "atom{|.relaxed|.acq_rel}{|.gpu|.cta}.global.{add|min|max|inc|dec|exch}.u32 $r, [$g], $r;",
    "atom.global.{and|or|xor}.b32 $r, [$g], $r;",
    "atom{|.global}.add.{u64|f64} $d, [$g], $d;",
    "atom.{global|shared}.cas.b32 $r, [{$g|$s}], $r, $r;",
    "atom.shared.{add|exch}.u32 $r, [$s], $r;",
    "red{|.relaxed.gpu}.global.add.{u32|f32} [$g], $r;",
    "red.shared.{max|and}.u32 [$s], $r;",
    "cp.async.{ca|cg}.shared.global [$s], [$g], {4|8|16}{|, $k|, $q};",
    "cp.async.{commit_group|wait_all|wait_group $k};",
    "ldmatrix.sync.aligned.m8n8.x{1|2}{|.trans}{|.shared}.b16 <$r{|, $r}>, [$s];",
    "ldmatrix.sync.aligned.m8n8.x4{|.trans}.shared.b16 <$r, $r, $r, $r>, [$s];",
    "mma.sync.aligned.m16n8k{16|8}.row.col.f32.{f16.f16|bf16.bf16|tf32.tf32}.f32 \
     <$r, $r, $r, $r>, <$r, $r, $r, $r>, <$r, $r>, <$r, $r, $r, $r>;",
    "mma.sync.aligned.m16n8k32.row.col.f32.{e4m3|e5m2}.{e4m3|e5m2}.f32 \
     <$r, $r, $r, $r>, <$r, $r, $r, $r>, <$r, $r>, <$r, $r, $r, $r>;",
    "mma.sync.aligned.m8n8k16.row.col{|.satfinite}.s32.{s8|u8}.{s8|u8}.s32 <$r, $r>, $r, $r, <$r, $r>;",
    "mma.sync.aligned.m8n8k4.{row|col}.{row|col}.f16.f16.f16.f16 <$r, $r, $r, $r>, <$r, $r>, <$r, $r>, <$r, $r, $r, $r>;",
    "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 <$d, $d, $d, $d>, <$d, $d, $d, $d>, <$d, $d>, <$d, $d, $d, $d>;",
    "shfl.sync.{up|down|idx|bfly}.b32 $r|$p, $r, $R, {31|0|7199|$R}, $m;",
    "vote.sync.{any|all|uni}.pred $p, $q, $m;",
    "vote.sync.ballot.b32 $r, $p, $m;",
    "match.any.sync.b32 $r, $r, $m;",
    "match.all.sync.b32 $r|$p, $r, $m;",
    "redux.sync.{add|min|max}.{u32|s32} $r, $r, $m;",
    "activemask.b32 $r;",
    "elect.sync $r|$p, $m;",
    "{membar|fence.acq_rel|fence.sc}.{cta|gl|gpu};",
    "bar.warp.sync $m;",
    "bar.sync {0|1|$k|$r}{|, 32|, 64|, $k};",
    "bar.arrive {1|2}, {32|64|$k};",
    "bar{|rier.cta}.red.{popc.u32 $r|and.pred $p|or.pred $p}, 0, $q;",
    "{nanosleep.u32 $R|prefetch.global.L2 [$g]|exit|ret|trap|pmevent $k};",
];

/// Modifiers that may be one too many.
const MODIFIERS: [&str; 11] = [
    ".sat", ".ftz", ".wide", ".v4", ".u64", ".b8", ".shared", ".sync", ".rn", ".x2", ".cc",
];

/// One instruction. Of a hundred, about one has a modifier that it should not have.
pub fn instruction(random: &mut Random) -> String {
    let rule = *random.pick(RULES);
    let text = expand(random, rule);
    if !random.one_in(100) {
        return text;
    }
    let end = text.find([' ', ';']).unwrap_or(text.len());
    let (opcode, rest) = text.split_at(end);
    format!("{opcode}{}{rest}", random.pick(&MODIFIERS))
}

fn expand(random: &mut Random, rule: &str) -> String {
    let mut out = String::new();
    let mut rest = rule;
    while let Some(at) = rest.find(['{', '<', '>', '$']) {
        out += &rest[..at];
        let (mark, behind) = rest[at..].split_at(1);
        rest = behind;
        match mark {
            "<" => out.push('{'),
            ">" => out.push('}'),
            "{" => {
                let (choices, behind) = behind.split_once('}').unwrap_or((behind, ""));
                let choices: Vec<&str> = choices.split('|').collect();
                let chosen = *random.pick(&choices);
                out += &expand(random, chosen);
                rest = behind;
            }
            _ => {
                let (kind, behind) = behind.split_at(1);
                out += &operand(random, kind);
                rest = behind;
            }
        }
    }
    out + rest
}

fn operand(random: &mut Random, kind: &str) -> String {
    let register =
        |random: &mut Random, file: &str, count| format!("%{file}{}", random.below(count));
    let near = |random: &mut Random, bases: &[&str], bytes: usize| {
        let offset = match random.below(40) {
            0 => random.number() as i64,
            1 => random.below(bytes) as i64,
            _ => (random.below(bytes / 16) * 16) as i64,
        };
        format!("{}+{offset}", random.pick(bases))
    };
    match kind {
        "h" => register(random, "h", 4),
        "R" | "D" if random.one_in(3) => format!("{}", random.number()),
        // The last ones hold all lanes, and addresses: what is used there changes little else.
        "r" | "R" if random.one_in(30) => "%r7".to_owned(),
        "r" | "R" => register(random, "r", 7),
        "d" | "D" if random.one_in(12) => register(random, "a", 3),
        "d" | "D" => register(random, "d", 8),
        "p" => register(random, "p", 3),
        "q" => format!("{}%p{}", random.pick(&["", "!"]), random.below(3)),
        "k" => format!("{}", random.below(64)),
        "n" => format!("{}", random.number()),
        "m" => (*random.pick(&["-1", "-1", "0xffff", "1", "%r7"])).to_owned(),
        // %x0 is the buffer, %x1 the thread's own part of it, %x2 of shared memory.
        "g" => near(random, &["%x0", "%x1", "%x1", "%x1"], 256),
        "s" => near(random, &["cells", "%x2", "%x2"], 256),
        "l" => near(random, &["own", "%a2"], 64),
        _ => near(random, &["%x1", "%a0", "%a1"], 64),
    }
}
