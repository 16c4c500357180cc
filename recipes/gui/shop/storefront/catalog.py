"""What the shop sells and who its customer is, from a seed. Prices are whole cents; all names are different."""

import random
from dataclasses import dataclass

COLOURS = ("red", "blue", "green", "black", "white", "yellow")
BRANDS = ("Lumo", "Tarn", "Oakby", "Velda", "Norrit", "Peska", "Brindle", "Castor")
KINDS = {
    "Lamps": ("Desk Lamp", "Floor Lamp", "Reading Lamp", "Clip Lamp"),
    "Mugs": ("Travel Mug", "Tea Mug", "Camping Mug", "Soup Mug"),
    "Backpacks": ("Day Backpack", "Hiking Backpack", "Laptop Backpack", "Roll-top Backpack"),
    "Headphones": ("Studio Headphones", "Sport Headphones", "Folding Headphones", "Kids Headphones"),
    "Blankets": ("Wool Blanket", "Picnic Blanket", "Fleece Blanket", "Baby Blanket"),
    "Notebooks": ("Dotted Notebook", "Ruled Notebook", "Sketch Notebook", "Pocket Notebook"),
}
CATEGORIES = tuple(KINDS)
PRICES = {  # cents: from, to
    "Lamps": (1800, 9000),
    "Mugs": (500, 2800),
    "Backpacks": (2500, 14000),
    "Headphones": (2000, 19000),
    "Blankets": (1500, 8000),
    "Notebooks": (300, 2200),
}
PER_CATEGORY = 12
STATUSES = ("processing", "shipped", "delivered", "cancelled")
_FIRST = ("Ana", "Bruno", "Chioma", "Dita", "Emre", "Farah", "Goran", "Hana", "Ivo", "Jun")
_LAST = ("Abara", "Berg", "Costa", "Dvorak", "Eriksen", "Fischer", "Ghosh", "Haddad", "Ito", "Jansen")
_STREETS = ("Mill Lane", "Station Road", "Harbour Street", "Elm Avenue", "Castle Hill", "Orchard Row")
_CITIES = ("Leeds", "Porto", "Ghent", "Turku", "Graz", "Aarhus", "Lyon", "Brno")


@dataclass(frozen=True)
class Product:
    id: str
    name: str
    category: str
    brand: str
    colour: str
    price: int  # cents
    rating: int  # tenths of a star, 20 to 50
    reviews: int
    stock: int

    @property
    def line(self) -> str:
        """All that a list says about it."""
        return f"{self.name}, {self.colour}, {money(self.price)}, {stars(self.rating)}"


@dataclass(frozen=True)
class Address:
    name: str
    street: str
    city: str
    postcode: str


@dataclass(frozen=True)
class PastOrder:
    number: str
    date: str  # ISO 8601
    status: str
    items: tuple[tuple[str, int], ...]  # product id, quantity


@dataclass(frozen=True)
class Account:
    username: str
    password: str
    address: Address
    orders: tuple[PastOrder, ...]


def money(cents: int) -> str:
    return f"${cents // 100}.{cents % 100:02d}"


def stars(tenths: int) -> str:
    return f"{tenths // 10}.{tenths % 10} stars"


def catalogue(seed: int) -> dict[str, Product]:
    """All products by id, in a fixed order. In one category no two have the same price or the same rating."""
    rng = random.Random(f"catalogue/{seed}")
    numbers = iter(rng.sample(range(1000, 9999), PER_CATEGORY * len(KINDS)))
    products = []
    for category, nouns in KINDS.items():
        names = [f"{brand} {noun}" for brand in BRANDS for noun in nouns]
        low, high = PRICES[category]
        prices = rng.sample(range(low, high, 5), PER_CATEGORY)
        ratings = rng.sample(range(24, 51), PER_CATEGORY)
        for name, price, rating in zip(rng.sample(names, PER_CATEGORY), prices, ratings, strict=True):
            brand = name.split(" ", 1)[0]
            colour = rng.choice(COLOURS[:4]) if rng.random() < 0.8 else rng.choice(COLOURS[4:])
            facts = (category, brand, colour, price, rating, rng.randint(3, 900), rng.randint(9, 60))
            products.append(Product(f"p{next(numbers)}", name, *facts))
    return {p.id: p for p in products}


def address(rng: random.Random) -> Address:
    """An address that somebody may want things sent to."""
    name = f"{rng.choice(_FIRST)} {rng.choice(_LAST)}"
    street = f"{rng.randint(1, 180)} {rng.choice(_STREETS)}"
    return Address(name, street, rng.choice(_CITIES), str(rng.randint(10000, 99999)))


def account(seed: int) -> Account:
    """The one customer who can log in, with one past order of each status and some more."""
    rng = random.Random(f"account/{seed}")
    home, ids = address(rng), list(catalogue(seed))
    first, last = home.name.split(" ")
    numbers = rng.sample(range(20000, 89999), 6)
    days = rng.sample(range(9 * 28), len(numbers))  # all different: there is one latest order
    dates = [f"2026-{day // 28 + 1:02d}-{day % 28 + 1:02d}" for day in sorted(days)]
    statuses = [*STATUSES, *rng.choices(STATUSES[1:], k=2)]
    rng.shuffle(statuses)
    orders = []
    for number, date, status in zip(numbers, dates, statuses, strict=True):
        items = tuple((p, rng.randint(1, 3)) for p in rng.sample(ids, rng.randint(1, 3)))
        orders.append(PastOrder(str(number), date, status, items))
    username = f"{first}.{last}".lower()
    return Account(username, f"{rng.choice(BRANDS).lower()}-{rng.randint(100, 999)}", home, tuple(orders))
