"""What volatile text looks like, and what the lines around it speak of. Two tables.

A pattern matches a span that changes by itself; its cause says which class such a change is. All run in linear time:
no repetition stands inside another.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_MONTHS = [
    "Jan(?:uary)?",
    "Feb(?:ruary)?",
    "Mar(?:ch)?",
    "Apr(?:il)?",
    "May",
    "June?",
    "July?",
    "Aug(?:ust)?",
    "Sept?(?:ember)?",
    "Oct(?:ober)?",
    "Nov(?:ember)?",
    "Dec(?:ember)?",
    "enero",
    "febrero",
    "marzo",
    "abril",
    "mayo",
    "junio",
    "julio",
    "agosto",
    "sep?tiembre",
    "octubre",
    "noviembre",
    "diciembre",
    "janvier",
    "février",
    "fevrier",
    "mars",
    "avril",
    "mai",
    "juin",
    "juillet",
    "août",
    "aout",
    "septembre",
    "octobre",
    "novembre",
    "décembre",
    "decembre",
    "Januar",
    "Jänner",
    "Februar",
    "März",
    "Juni",
    "Juli",
    "Oktober",
    "Dezember",
    "janeiro",
    "fevereiro",
    "março",
    "maio",
    "junho",
    "julho",
    "setembro",
    "outubro",
    "novembro",
    "dezembro",
    "gennaio",
    "febbraio",
    "aprile",
    "maggio",
    "giugno",
    "luglio",
    "settembre",
    "ottobre",
    "dicembre",
    "januari",
    "februari",
    "maart",
    "mei",
    "augustus",
    "maj",
    "marts",
    "augusti",
    "stycznia",
    "lutego",
    "marca",
    "kwietnia",
    "maja",
    "czerwca",
    "lipca",
    "sierpnia",
    "września",
    "października",
    "listopada",
    "grudnia",
    "ledna",
    "února",
    "března",
    "dubna",
    "května",
    "června",
    "července",
    "srpna",
    "října",
    "listopadu",
    "prosince",
    "Ocak",
    "Şubat",
    "Mart",
    "Nisan",
    "Mayıs",
    "Haziran",
    "Temmuz",
    "Ağustos",
    "Eylül",
    "Ekim",
    "Kasım",
    "Aralık",
    "Maret",
    "Agustus",
    "Desember",
    "января",
    "февраля",
    "марта",
    "апреля",
    "мая",
    "июня",
    "июля",
    "августа",
    "сентября",
    "октября",
    "ноября",
    "декабря",
    "січня",
    "лютого",
    "березня",
    "квітня",
    "травня",
    "червня",
    "липня",
    "серпня",
    "вересня",
    "жовтня",
    "листопада",
    "грудня",
]
_WEEKDAYS = [
    "Mon(?:day)?",
    "Tue(?:s(?:day)?)?",
    "Wed(?:nesday)?",
    "Thu(?:rs?(?:day)?)?",
    "Fri(?:day)?",
    "Sat(?:urday)?",
    "Sun(?:day)?",
    "lunes",
    "martes",
    "miércoles",
    "jueves",
    "viernes",
    "sábado",
    "domingo",
    "lundi",
    "mardi",
    "mercredi",
    "jeudi",
    "vendredi",
    "samedi",
    "dimanche",
    "Montag",
    "Dienstag",
    "Mittwoch",
    "Donnerstag",
    "Freitag",
    "Samstag",
    "Sonnabend",
    "Sonntag",
    "segunda-feira",
    "terça-feira",
    "quarta-feira",
    "quinta-feira",
    "sexta-feira",
    "lunedì",
    "martedì",
    "mercoledì",
    "giovedì",
    "venerdì",
    "sabato",
    "domenica",
    "maandag",
    "dinsdag",
    "woensdag",
    "donderdag",
    "vrijdag",
    "zaterdag",
    "zondag",
    "poniedziałek",
    "wtorek",
    "środa",
    "czwartek",
    "piątek",
    "sobota",
    "niedziela",
    "понедельник",
    "вторник",
    "среда",
    "четверг",
    "пятница",
    "суббота",
    "воскресенье",
]
_MONTH = rf"(?:{'|'.join(_MONTHS)})\.?"
_DAY = rf"(?:(?:{'|'.join(_WEEKDAYS)}),?\s+(?:(?:der|den|le|el|il|the)\s+)?)?"
_NTH = r"\d{1,2}(?:st|nd|rd|th|er|[ºª.])?"
_YEAR = r"(?:,?\s+(?:de\s+|del\s+)?\d{4}\b(?:\s?[гrр]\.)?)?"
_ZONE = r"(?:\s?(?:Z|UTC|GMT|[A-Z]{2,4}T|[+-]\d{2}:?\d{2})\b)?"
_TIME = rf"\d{{1,2}}:\d{{2}}(?::\d{{2}})?(?:[.,]\d+)?(?:\s?[AaPp]\.?[Mm]\b\.?)?{_ZONE}"
_ISO_TIME = rf"[T ]\d{{2}}(?!\d)(?::\d{{2}}(?::\d{{2}}(?:[.,]\d+)?)?)?{_ZONE}"
_AT = rf"(?:,?\s+(?:at\s+)?{_TIME})?"
_HAN_DAY = r"(?:\s*[（(]?(?:星期|周|週)?[一二三四五六日天月火水木金土](?:曜日)?[)）]?(?!\w))?"
_HAN_TIME = r"(?:\s*(?:上午|下午|午前|午後)?\s*\d{1,2}[時时点點:]\s*\d{1,2}分?(?:\s*\d{1,2}秒)?)?"
_PATH = r"[`'\"]?[/~\w.:\\-]+[`'\"]?"


@dataclass(frozen=True, slots=True)
class Pattern:
    """One look of volatile text."""

    cause: str
    name: str
    regex: re.Pattern[str]


def _pattern(cause: str, name: str, regex: str) -> Pattern:
    return Pattern(cause, name, re.compile(regex))


PATTERNS: tuple[Pattern, ...] = (
    _pattern("S1", "iso date and time", rf"\b\d{{4}}-\d{{2}}-\d{{2}}(?:{_ISO_TIME})?(?![\w-])"),
    _pattern("S1", "iso week", r"\b\d{4}-W\d{2}(?:-\d)?\b"),
    _pattern(
        "S1",
        "written date",
        rf"(?i:\b{_DAY}(?:{_NTH}\s+(?:de\s+|d')?{_MONTH}|{_MONTH}\s+{_NTH})(?!\w){_YEAR}){_AT}",
    ),
    _pattern("S1", "han date", rf"\d{{4}}\s?年\s?\d{{1,2}}\s?月\s?\d{{1,2}}\s?日{_HAN_DAY}{_HAN_TIME}"),
    _pattern(
        "S1",
        "korean date",
        r"\d{4}년\s?\d{1,2}월\s?\d{1,2}일(?:\s?[월화수목금토일]요일)?"
        r"(?:\s?(?:오전|오후)?\s?\d{1,2}시(?:\s?\d{1,2}분)?)?",
    ),
    _pattern("S1", "slashed date", rf"(?<![\d/])\d{{1,4}}/\d{{1,2}}/\d{{2,4}}(?![\d/]){_AT}"),
    _pattern("S1", "dotted date", rf"(?<![\d.])\d{{1,2}}\.\d{{1,2}}\.\d{{4}}(?!\d|\.\d){_AT}"),
    _pattern("S1", "clock", rf"(?<![\d:.]){_TIME}(?![\d:])"),
    _pattern("S1", "clock with a letter", r"(?<![\w:.])\d{1,2}\s?(?:h|Uhr)\s?\d{2}(?!\w)|\d{1,2}[時时]\s?\d{1,2}分"),
    _pattern("S1", "month and year", rf"(?i:\b{_MONTH}\s+(?:de\s+)?\d{{4}}\b)"),
    _pattern("S1", "day of the week, elsewhere", rf"\b(?:{'|'.join(_WEEKDAYS[7:])})\b"),
    _pattern("S1", "day of the week", r"\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day\b"),
    _pattern("S1", "time ago", r"\b\d+\s+(?:second|minute|hour|day|week)s?\s+ago\b"),
    _pattern("S1", "unix time", r"(?<![\w.])1[5-9]\d{8}(?:\d{3}|\d{6}|\.\d+)?(?!\w|\.\d)"),
    _pattern("S2", "uuid", r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"),
    _pattern("S2", "ulid", r"\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b"),
    _pattern("S2", "hex id", r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{12,64}\b"),
    _pattern(
        "S2",
        "id with a prefix",
        r"\b(?:conv|req|msg|sess|session|run|trace|thread|resp|call|chatcmpl|evt|job)[_-]"
        r"(?=[A-Za-z]*\d)[A-Za-z0-9]{8,64}\b",
    ),
    _pattern(
        "S2",
        "request or session id",
        r"(?i)\b(?:(?:request|session|trace|run|req|correlation|conversation|invocation|span)[-_ ]?id|nonce|etag)\b"
        r"[\"']?\s*[:=]\s*[\"']?[\w.-]{4,}",
    ),
    _pattern(
        "S3",
        "counter",
        r"(?i)(?<![\d,._])\d[\d,._]{0,20}(?=\s*(?:/\s*\d[\d,._]{0,20}\s*)?"
        r"(?:tokens?|turns?|steps?|credits?|messages?|requests?)\s+(?:left|remaining|used)\b)",
    ),
    _pattern(
        "S3",
        "working directory",
        r"(?i)\b(?:cwd|(?:working|current|project|root)[ -]?(?:directory|dir|folder|path))\b"
        rf"(?:(?:\s+is\s+|\s*[:=]\s*){_PATH}|\s+[`'\"]?[/~][/~\w.-]*)",
    ),
    _pattern(
        "S3",
        "git state",
        r"(?im)^\s*(?:(?:git|current)\s+)?(?:branch|status|head|recent commits?)\s*[:=].*$"
        r"|^(?: [MADRCU]|[MADRCU?!][ MADRCU?!]) \S+$",
    ),
    _pattern("S3", "temporary path", r"(?:/tmp|/var/folders|/private/tmp|[A-Z]:\\Temp)[/\\][\w.+/\\-]+"),
    _pattern("S3", "host", r"(?i)\b(?:host(?:name)?|machine|pid|port)\s*[:=]\s*[\w.-]+"),
)


HINTS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("S1", re.compile(r"(?i)\b(?:time|date|clock|today|now|timestamp)\b")),
    (
        "S3",
        re.compile(
            r"(?i)\b(?:git ?status|branch|status|cwd|director(?:y|ies)|workspace|working tree|cursor|selection|"
            r"diagnostics|problems|(?:open|recent|recently \w{2,10}|edited|modified|changed) "
            r"(?:files|tabs|documents|commits)|"
            r"tokens?|budget|uptime|battery|load)\b"
        ),
    ),
    (
        "S4",
        re.compile(
            r"(?i)\b(?:memor(?:y|ies)|mem|remember\w*|recall\w*|retriev\w*|knowledge|facts|search results|excerpts|"
            r"relevant (?:documents?|passages?|context|notes?|snippets?))\b"
        ),
    ),
    (
        "S6",
        re.compile(
            r"(?i)\b(?:mode|channel|surface|persona|output style|reply via|respond via|tone|platform|interface|"
            r"audience)\b"
        ),
    ),
)
"""What a line speaks of, or the heading above it: for a change that does not look volatile by itself."""
